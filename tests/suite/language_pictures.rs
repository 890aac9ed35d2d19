//! Figures of language models, from made-up frames.

use loglinear::frame::{published, with_text};
use loglinear::polars::prelude::*;
use loglinear::task::Tokenizer;
use loglinear::visualization::*;
use std::ops::Range;
use std::path::Path;

const KINDS: [&str; 3] = ["fixed", "mlp-softplus", "mlp-softmax"];

/// Checks that a figure's text has every one of `texts`; with `LOGLINEAR_PICTURES` set to a folder, the figure
/// is kept there under a name, to be looked at.
fn shows(name: &str, figure: &Figure, texts: &[&str]) {
    if let Ok(folder) = std::env::var("LOGLINEAR_PICTURES") {
        figure.save(Path::new(&folder).join(name)).unwrap();
    }
    for text in texts {
        assert!(figure.svg().contains(text), "{name} lacks `{text}`");
    }
}

/// Noise between −1 and 1 that is the same every time.
fn noise(of: u32) -> f64 {
    f64::from(of.wrapping_mul(2_654_435_761) >> 8) / f64::from(1_u32 << 23) - 1.0
}

/// Evaluations of three kinds × 3 seeds, 10 each.
fn evaluations() -> DataFrame {
    let (mut runs, mut kinds, mut seeds, mut steps) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut train, mut validation) = (Vec::new(), Vec::new());
    for (index, kind) in KINDS.into_iter().enumerate() {
        for seed in 0..3_u32 {
            for step in (295..=2950_u32).step_by(295) {
                let shift = 0.02 * index as f64 + 0.01 * noise(seed * 31 + step + index as u32);
                runs.push(format!("wikitext-2/{kind}-seed{seed}"));
                kinds.push(kind);
                seeds.push(seed);
                steps.push(step);
                validation.push(5.0 - shift + 2.4 * (-f64::from(step) / 500.0).exp());
                train.push(4.5 - shift + 3.4 * (-f64::from(step) / 600.0).exp());
            }
        }
    }
    let rows = runs.len();
    let perplexity: Vec<f64> = validation.iter().map(|loss| loss.exp()).collect();
    df!("run" => runs, "kind" => kinds, "seed" => seeds, "step" => steps, "train_loss" => train,
        "validation_loss" => validation, "perplexity" => perplexity, "target_offset" => vec![1_u32; rows],
        "corpus" => vec!["wikitext-2"; rows], "seq_len" => vec![512_u32; rows])
    .unwrap()
}

fn without(frame: &DataFrame, name: &str) -> DataFrame {
    frame.drop(name).unwrap()
}

pub fn with(frame: &DataFrame, name: &str, value: Expr) -> DataFrame {
    frame.clone().lazy().with_column(value.alias(name)).collect().unwrap()
}

/// Checks that each frame is refused with a message that holds its text.
fn refused(draw: impl Fn(&DataFrame) -> loglinear::Result<Figure>, cases: &[(DataFrame, &str)]) {
    for (frame, named) in cases {
        let message = draw(frame).unwrap_err().to_string();
        assert!(message.contains(named), "`{named}` is not in: {message}");
    }
}

#[test]
fn loss_curves_show_training_validation_and_perplexity() {
    let frame = evaluations();
    let figure = loss_curves(&frame).unwrap();
    let texts = [
        "target t+1",
        "Fixed λ (baseline), n = 3",
        "training",
        "cross-entropy (nats)",
        "perplexity",
        "\n200\n",
    ];
    shows("language-curves", &figure, &texts);
    // Differences are of runs of one seed: without Fixed λ, or with several runs of it that have one, there are none.
    let less = "Validation loss less Fixed λ";
    shows("language-curves", &figure, &[less]);
    let others = frame.clone().lazy().filter(col("kind").neq(lit("fixed"))).collect().unwrap();
    let alone = frame.clone().lazy().filter(col("kind").eq(lit("fixed"))).collect().unwrap();
    for frame in [others, alone, with(&frame, "seed", lit(0_u32))] {
        assert!(!loss_curves(&frame).unwrap().svg().contains("less"));
    }
    assert!(
        learning_curves(&with(&with(&frame, "task", lit("text")), "pairs", lit(NULL)), Quantity::Perplexity)
            .is_ok()
    );
    let cases = [
        (frame.head(Some(0)), "no rows"),
        (without(&frame, "train_loss"), "train_loss"),
        (without(&frame, "seed"), "seed"),
        (with(&frame, "target_offset", lit(NULL).cast(DataType::UInt32)), "runs on a text"),
        (with(&frame, "target_offset", col("seed") + lit(1_u32)), "one target_offset"),
    ];
    refused(loss_curves, &cases);
}

/// Runs of three kinds × 3 seeds on a text.
fn runs(corpus: &str, d_model: u32, steps: u32, target_offset: u32, perplexity: f64) -> DataFrame {
    let kinds: Vec<&str> = KINDS.into_iter().flat_map(|kind| [kind; 3]).collect();
    let values: Vec<f64> = (0..9_u32)
        .map(|row| perplexity * (1.0 - 0.006 * f64::from(row / 3) + 0.003 * noise(row + 5)))
        .collect();
    df!("kind" => kinds, "corpus" => [corpus; 9], "d_model" => [d_model; 9], "steps" => [steps; 9],
        "target_offset" => [target_offset; 9], "perplexity" => values)
    .unwrap()
}

#[test]
fn published_perplexities_are_marked_as_of_another_setting() {
    let (ours, published) = (runs("wikitext-2", 256, 2950, 1, 148.0), published().unwrap());
    let alone = perplexity_by_kind(&ours, None).unwrap();
    shows("perplexity-alone", &alone, &["WikiText-2", "d = 256, 2950 steps, target t+1", "n = 3"]);
    assert!(!alone.svg().contains("published"));
    let figure = perplexity_by_kind(&ours, Some(&published)).unwrap();
    let texts = [
        "WikiText-103, published",
        "d = 512, 40000 steps, target t+2",
        "218.57",
        "start at 0",
        "published (paper)",
    ];
    shows("perplexity", &figure, &texts);
    assert_eq!(figure.svg().matches("WikiText-103, published").count(), 4, "a panel a setting");
    // Of the same setting ours and theirs share a panel.
    let same = runs("wikitext-103", 512, 40_000, 2, 222.0);
    let figure = perplexity_by_kind(&same, Some(&published)).unwrap();
    shows("perplexity-same", &figure, &["WikiText-103\n", "◇ 218.57"]);
    assert_eq!(figure.svg().matches("WikiText-103, published").count(), 3);
    let cases = [
        (ours.head(Some(0)), "no run has a finite perplexity"),
        (with(&ours, "perplexity", lit(NULL).cast(DataType::Float64)), "no run has a finite perplexity"),
        (without(&ours, "corpus"), "corpus"),
        (without(&ours, "steps"), "steps"),
    ];
    refused(|frame| perplexity_by_kind(frame, None), &cases);
}

/// Losses by position in windows of some length, of models trained at 512.
pub fn positions(seq_len: u32) -> DataFrame {
    let (mut runs, mut kinds, mut places, mut losses) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, kind) in KINDS.into_iter().enumerate() {
        for seed in 0..3_u32 {
            for position in 0..seq_len {
                runs.push(format!("wikitext-2/{kind}-seed{seed}"));
                kinds.push(kind);
                places.push(position);
                let beyond = f64::from(position.saturating_sub(511)).ln_1p() * 0.03 * index as f64;
                let read = f64::from(position + 1);
                losses.push(
                    4.8 + 2.6 / read.sqrt()
                        + beyond
                        + 0.1 * noise(position + 7 * seed)
                        + 0.01 * f64::from(seed),
                );
            }
        }
    }
    let rows = runs.len();
    df!("run" => runs, "kind" => kinds, "position" => places, "loss" => losses,
        "seed" => vec![0_u32; rows], "target_offset" => vec![1_u32; rows], "seq_len" => vec![seq_len; rows],
        "trained_seq_len" => vec![512_u32; rows], "scored" => vec![60_u32; rows])
    .unwrap()
}

#[test]
fn perplexity_by_position_names_the_trained_window() {
    let frame = positions(4096);
    let figure = perplexity_by_position(&frame).unwrap();
    let texts =
        ["windows of 4096, target t+1", "trained window: 512", "MLP-λ (softmax), n = 3", "\n2048\n", "\n0\n"];
    shows("perplexity-by-position", &figure, &texts);
    let own = perplexity_by_position(&positions(512)).unwrap();
    shows("perplexity-by-position-512", &own, &["windows of 512"]);
    assert!(!own.svg().contains("trained window"));
    let cases = [
        (frame.head(Some(0)), "no rows"),
        (without(&frame, "scored"), "scored"),
        (with(&frame, "scored", lit(0_u32)), "no row has a finite value"),
        (with(&frame, "seq_len", col("position") + lit(1_u32)), "one seq_len"),
    ];
    refused(perplexity_by_position, &cases);
}

/// Costs of three kinds at positions from 16 to `last`.
pub fn decoding(last: u32, slow: f64) -> DataFrame {
    let (mut kinds, mut places, mut bytes, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for kind in ["mlp-softplus", "linear-attention", "softmax-attention"] {
        for position in (4..).map(|power| 1_u32 << power).take_while(|&position| position <= last) {
            let state = 6 * 4 * 128 * 64 * 4_u64;
            let (held, time) = match kind {
                "linear-attention" => (state, 2.1),
                "softmax-attention" => {
                    (6 * 2 * 256 * 4 * u64::from(position), 1.9 + slow * f64::from(position))
                }
                _ => (state * u64::from(position.ilog2()), 2.6 + 0.02 * f64::from(position.ilog2())),
            };
            kinds.push(kind);
            places.push(position);
            bytes.push(held);
            times.push(time);
        }
    }
    let rows = kinds.len();
    df!("kind" => kinds, "position" => places, "state_bytes" => bytes, "milliseconds" => times,
        "d_model" => vec![256_u32; rows], "layers" => vec![6_u32; rows], "device" => vec!["cuda:0"; rows])
    .unwrap()
}

#[test]
fn decoding_costs_memory_and_time() {
    let frame = decoding(65_536, 5e-5);
    let figure = decoding_cost(&frame).unwrap();
    let texts = [
        "d = 256, 6 layers, cuda:0",
        "Log-linear attention, MLP-λ (softplus)",
        "Softmax attention",
        "MiB",
        "16384",
    ];
    shows("decoding-cost", &figure, &texts);
    shows("decoding-cost-far", &decoding_cost(&decoding(1 << 18, 1e-2)).unwrap(), &["\n1000\n", "262144"]);
    let at_zero =
        with(&frame.head(Some(1)), "position", lit(0_u32).cast(DataType::UInt32)).vstack(&frame).unwrap();
    assert_eq!(decoding_cost(&at_zero).unwrap(), figure, "0 has no place on a logarithmic axis");
    let cases = [
        (frame.head(Some(0)), "no rows"),
        (without(&frame, "milliseconds"), "milliseconds"),
        (with(&frame, "milliseconds", lit(0.0)), "milliseconds must be positive"),
        (with(&frame, "layers", col("position")), "one layers"),
    ];
    refused(decoding_cost, &cases);
}

/// λ of one layer and head on a text.
pub fn lambda(text: &str) -> DataFrame {
    let tokens = Tokenizer::gpt2().encode(text);
    let (mut places, mut ids, mut levels, mut present, mut values) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (position, &token) in tokens.iter().enumerate() {
        let buckets = loglinear::fenwick::buckets(position);
        for level in 0..15_usize {
            places.push(position as u32);
            ids.push(token as i32);
            levels.push(level as u32);
            present.push(buckets.iter().any(|bucket| bucket.level == level));
            values.push((0.5 + 0.4 * noise(token * 17 + level as u32)) as f32);
        }
    }
    let rows = places.len();
    df!("run" => vec!["wikitext-2/mlp-softplus-seed0"; rows], "kind" => vec!["mlp-softplus"; rows],
        "layer" => vec![2_u32; rows], "head" => vec![1_u32; rows], "sequence" => vec![0_u32; rows],
        "position" => places, "token" => ids, "region" => vec!["text"; rows], "level" => levels,
        "present" => present, "lambda" => values)
    .unwrap()
}

pub const TEXT: &str = " = Robert Boulter = \n Robert Boulter is an English film , television and theatre actor . He had a \
                    guest @-@ starring role on the television series The Bill in 2000 . This was followed by a starring role in \
                    the play Herons written by Simon Stephens , which was performed in 2001 at the Royal Court Theatre .";

#[test]
fn lambda_stands_above_the_tokens_of_a_text() {
    let bare = lambda(TEXT);
    let frame = with_text(&bare).unwrap();
    let of = |positions: Range<usize>, cells| TextHeatmap {
        run: "wikitext-2/mlp-softplus-seed0",
        layer: 2,
        head: 1,
        sequence: 0,
        positions,
        cells,
    };
    let figure = text_heatmap(&frame, &of(0..64, Cells::Present)).unwrap();
    let texts =
        ["·television", "\\n", "layer 2, head 1; sequence 0, positions 0 to 63", "level holds nothing"];
    shows("lambda-text", &figure, &texts);
    assert!(!figure.svg().contains("\n14\n"), "levels that hold nothing have no row");
    let all = text_heatmap(&frame, &of(20..40, Cells::All)).unwrap();
    shows("lambda-text-all", &all, &["\n14\n", "positions 20 to 39"]);
    assert!(!all.svg().contains("holds nothing"));
    let draw = |frame: &DataFrame| text_heatmap(frame, &of(0..64, Cells::Present));
    let cases = [
        (frame.head(Some(0)), "no λ"),
        (frame.head(Some(15 * 30)), "or not all"),
        (bare.clone(), "text"),
        (with(&frame, "lambda", lit(1e30)), "diverge"),
    ];
    refused(draw, &cases);
    let message = text_heatmap(&frame, &of(0..81, Cells::All)).unwrap_err().to_string();
    assert!(message.contains("1 to 80 positions") && message.contains("0..81"), "{message}");
    let message = text_heatmap(&frame, &TextHeatmap { layer: 3, ..of(0..64, Cells::All) }).unwrap_err();
    assert!(message.to_string().contains("layer 3"), "{message}");
}
