//! Figures that compare: kinds with each other over settings, our runs with published numbers.

use loglinear::fenwick;
use loglinear::frame::published;
use loglinear::polars::prelude::*;
use loglinear::visualization::*;

/// Checks that a figure's text has every one of `texts`.
fn shows(figure: &Figure, texts: &[&str]) {
    for text in texts {
        assert!(figure.svg().contains(text), "the figure lacks `{text}`");
    }
}

/// Published rows of one benchmark.
fn benchmark(name: &str) -> DataFrame {
    published().unwrap().lazy().filter(col("benchmark").eq(lit(name))).collect().unwrap()
}

/// Runs of MQAR: three kinds, `seeds` runs each, at some numbers of pairs.
fn mqar(pairs: &[u32], seeds: u32) -> DataFrame {
    let (mut runs, mut kinds, mut all_pairs, mut accuracy) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, kind) in ["fixed", "mlp-softplus", "mlp-softmax"].into_iter().enumerate() {
        for &pairs in pairs {
            for seed in 0..seeds {
                runs.push(format!("mqar/{kind}-pairs{pairs}-seed{seed}"));
                kinds.push(kind);
                all_pairs.push(pairs);
                let spread = f64::from(seed) * 0.05;
                accuracy.push((1.1 - 0.1 * index as f64 - f64::from(pairs) * 0.02 + spread).clamp(0.0, 1.0));
            }
        }
    }
    let rows = runs.len();
    df!("run" => runs, "kind" => kinds, "task" => vec!["mqar"; rows], "seq_len" => vec![128_u32; rows],
        "pairs" => all_pairs, "best_accuracy" => accuracy)
    .unwrap()
}

#[test]
fn published_accuracies_lie_beside_ours() {
    let runs = mqar(&[8, 16, 32], 3);
    let alone = accuracy_against_pairs(&runs, None).unwrap();
    shows(&alone, &["MLP-λ (softmax), n = 3", "\n8\n", "\n16\n", "\n32\n"]);
    assert!(!alone.svg().contains("published"));
    let release = accuracy_against_pairs(&runs, Some(&benchmark("mqar-128"))).unwrap();
    shows(&release, &["published (release figure)"]);
    assert!(!release.svg().contains("published (paper)"));
    let paper = accuracy_against_pairs(&runs, Some(&benchmark("mqar"))).unwrap();
    shows(&paper, &["published (paper)"]);
    // Rows without pairs are not of this figure.
    let other = accuracy_against_pairs(&runs, Some(&benchmark("wikitext-103"))).unwrap();
    assert_eq!(other.svg(), alone.svg());
    let wrong = benchmark("mqar").lazy().with_column(lit(57.9).alias("value")).collect().unwrap();
    let message = accuracy_against_pairs(&runs, Some(&wrong)).unwrap_err().to_string();
    assert!(message.contains("share") && message.contains("57.9"), "{message}");
}

/// Accuracies of some kinds at lengths 128 and 256, `seeds` rows each.
fn lengths(kinds: &[&str], seeds: u32, accuracy: impl Fn(u32, u32) -> f64) -> DataFrame {
    let (mut names, mut evaluated, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for kind in kinds {
        for length in [128_u32, 256] {
            for seed in 0..seeds {
                names.push(*kind);
                evaluated.push(length);
                values.push(accuracy(length, seed));
            }
        }
    }
    df!("kind" => names, "eval_seq_len" => evaluated, "accuracy" => values).unwrap()
}

#[test]
fn bars_are_grouped_and_counted() {
    let published = benchmark("length-generalisation");
    let bars = Bars {
        group: "eval_seq_len",
        value: "accuracy",
        title: "Length generalisation",
        x_label: "length T of the evaluated sequences",
        published: None,
    };
    let mut frame =
        lengths(
            &["fixed", "mlp-softplus"],
            5,
            |length, seed| {
                if length == 128 { 1.0 } else { 0.1 * f64::from(seed) }
            },
        );
    let alone = accuracy_bars(&frame, &bars).unwrap();
    shows(&alone, &["MLP-λ (softplus), n = 5", "\n128\n", "\n256\n", "100 %", bars.title, bars.x_label]);
    assert!(!alone.svg().contains("published") && !alone.svg().contains("chance"));
    let dots = |figure: &Figure| figure.svg().matches("<circle").count();
    assert_eq!(dots(&alone), 2 * 20, "a dot with a white edge for every run");
    let both = accuracy_bars(&frame, &Bars { published: Some(&published), ..bars }).unwrap();
    shows(&both, &["published (paper)"]);
    // One run, at 0; and a kind and group that only were published.
    let zero = lengths(&["mlp-softmax"], 1, |_, _| 0.0);
    let zero = accuracy_bars(&zero, &Bars { published: Some(&benchmark("mqar-128")), ..bars }).unwrap();
    shows(&zero, &["MLP-λ (softmax), n = 1", "Fixed λ (baseline)"]);
    assert!(!zero.svg().contains("Fixed λ (baseline), n"));

    let chance: Vec<f64> = (0..frame.height()).map(|row| if row / 5 % 2 == 0 { 0.1 } else { 0.05 }).collect();
    frame.with_column(Column::new("chance".into(), chance)).unwrap();
    shows(&accuracy_bars(&frame, &bars).unwrap(), &["chance"]);
    let by_kind = Bars { group: "kind", ..bars };
    for (frame, bars, part) in [
        (&lengths(&["fixed"], 1, |_, _| 57.9), bars, "share of 0 to 1, found 57.9"),
        (&lengths(&["fixed"], 1, |_, _| f64::NAN), bars, "no row has a eval_seq_len and a finite accuracy"),
        (&frame.head(Some(0)), bars, "nothing to draw"),
        (&frame, by_kind, "kind"),
    ] {
        let message = accuracy_bars(frame, &bars).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn learning_curves_of_settings_share_a_legend() {
    let (mut runs, mut kinds, mut lengths, mut pairs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut steps, mut accuracy) = (Vec::new(), Vec::new());
    for (kind, seeds) in [("fixed", 3), ("mlp-softplus", 2)] {
        for setting in [(512_u32, 8_u32), (256, 16), (256, 8)] {
            // The first setting has one run of each kind.
            for seed in 0..if setting.0 == 512 { 1 } else { seeds } {
                for step in 1..=4_u32 {
                    runs.push(format!("mqar/{kind}-{}-{}-seed{seed}", setting.0, setting.1));
                    kinds.push(kind);
                    lengths.push(setting.0);
                    pairs.push(setting.1);
                    steps.push(100 * step);
                    accuracy.push(f64::from(step) * 0.25);
                }
            }
        }
    }
    let frame =
        df!("run" => &runs, "kind" => kinds, "task" => vec!["mqar"; runs.len()], "seq_len" => lengths,
        "pairs" => pairs, "step" => steps, "accuracy" => accuracy)
        .unwrap();
    let figure = learning_curves_grid(&frame, Quantity::Accuracy, &["seq_len", "pairs"]).unwrap();
    shows(&figure, &["Fixed λ (baseline), n = 1 to 3", "MLP-λ (softplus), n = 1 to 2", "training step"]);
    let at = |title: &str| figure.svg().find(&format!("\n{title}\n")).unwrap_or_else(|| panic!("no {title}"));
    assert!(at("T = 256, k = 8") < at("T = 256, k = 16") && at("T = 256, k = 16") < at("T = 512, k = 8"));
    assert_eq!(figure.svg().matches("n = 1 to 3").count(), 1);
    let message = learning_curves_grid(&frame, Quantity::Accuracy, &["pairs"]).unwrap_err().to_string();
    assert!(message.contains("one seq_len") && message.contains("512"), "{message}");
    let message = learning_curves_grid(&frame, Quantity::Accuracy, &[]).unwrap_err().to_string();
    assert!(message.contains("at least one column"), "{message}");
    assert!(learning_curves_grid(&frame.head(Some(0)), Quantity::Accuracy, &["pairs"]).is_err());
}

/// λ of runs with one layer and head on one sequence of `seq_len` positions.
fn lambda(runs: &[(&str, &str)], seq_len: usize) -> DataFrame {
    let levels = fenwick::num_levels(seq_len);
    let (mut names, mut kinds, mut positions, mut regions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut at, mut present, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (name, kind)) in runs.iter().enumerate() {
        for position in 0..seq_len {
            let held: Vec<usize> = fenwick::buckets(position).iter().map(|bucket| bucket.level).collect();
            for level in 0..levels {
                names.push(*name);
                kinds.push(*kind);
                positions.push(position as u32);
                regions.push(if position < seq_len / 2 { "key" } else { "query" });
                at.push(level as u32);
                present.push(held.contains(&level));
                values.push((index + 1) as f32 / (level + 1) as f32);
            }
        }
    }
    let rows = names.len();
    df!("run" => names, "kind" => kinds, "layer" => vec![0_u32; rows], "head" => vec![0_u32; rows],
        "sequence" => vec![0_u32; rows], "position" => positions, "region" => regions, "level" => at,
        "present" => present, "lambda" => values)
    .unwrap()
}

#[test]
fn heatmaps_stand_by_configuration_and_seed() {
    let runs = [
        ("sweep/mlp-softplus-pairs16-seed0", "mlp-softplus"),
        ("sweep/mlp-softplus-pairs8-seed0", "mlp-softplus"),
        ("sweep/fixed-pairs8-seed1", "fixed"),
        ("sweep/fixed-pairs8-seed0", "fixed"),
    ];
    let shown = HeatmapGrid::default();
    let figure = heatmap_grid(&lambda(&runs, 16), &shown).unwrap();
    shows(
        &figure,
        &["layer 0, head 0", "seed 0", "seed 1", "level holds nothing", "query", "pairs8", "position"],
    );
    let at = |text: &str| figure.svg().find(&format!("\n{text}\n")).unwrap_or_else(|| panic!("no {text}"));
    assert!(at("Fixed λ (baseline)") < at("pairs8") && at("pairs8") < at("pairs16"), "the paper's order");
    assert_eq!(figure.svg().matches("\nFixed λ (baseline)\n").count(), 1);
    // A scale a row: the runs' largest λ, of those that a row shows.
    for largest in ["\n4\n", "\n2\n", "\n1\n"] {
        shows(&figure, &[largest]);
    }
    let all = heatmap_grid(&lambda(&runs, 16), &HeatmapGrid { cells: Cells::All, ..shown }).unwrap();
    assert!(!all.svg().contains("level holds nothing"));
    let long = heatmap_grid(&lambda(&runs[2..], 512), &shown).unwrap();
    shows(&long, &["mean over 2 neighbouring positions where the level is present", "\n384\n"]);
    let message =
        heatmap_grid(&lambda(&runs, 8), &HeatmapGrid { layer: 2, ..shown }).unwrap_err().to_string();
    assert!(message.contains("layer 2 (last: 0)"), "{message}");
}

#[test]
fn effects_are_in_percentage_points() {
    let frame = df!("label" => ["GELU", "GELU", "hidden width 64"],
        "kind" => ["mlp-softmax", "mlp-softplus", "mlp-softplus"], "mean" => [-0.1, 0.2, 0.0],
        "low" => [Some(-0.2), None, Some(0.0)], "high" => [Some(0.0), None, Some(0.0)], "n" => [3_u32, 3, 5])
    .unwrap();
    let figure = effects(&frame, "What changes").unwrap();
    let texts = ["What changes", "GELU", "hidden width 64", "n = 3", "n = 5", "\n+10\n", "\n−10\n"];
    shows(&figure, &texts);
    shows(&figure, &["difference in accuracy (percentage points)", "MLP-λ (softmax)"]);
    assert_eq!(figure.svg().matches("\nGELU\n").count(), 1);
    // Nothing but a point, and that at 0.
    assert!(effects(&frame.tail(Some(1)), "None").is_ok());
    assert!(effects(&frame.head(Some(0)), "None").unwrap_err().to_string().contains("no rows"));
    let reversed = frame.lazy().with_columns([lit(0.3).alias("low"), lit(0.1).alias("high")]);
    let message = effects(&reversed.collect().unwrap(), "Reversed").unwrap_err().to_string();
    assert!(message.contains("`GELU`") && message.contains("0.3 to 0.1"), "{message}");
}
