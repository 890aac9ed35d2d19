//! Figures that compare: kinds with each other over settings, our runs with published numbers.

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
