//! Tasks: what every example must satisfy, and errors for impossible parameters.

use loglinear::model::IGNORED;
use loglinear::task::*;
use std::collections::{HashMap, HashSet};

fn examples(config: &TaskConfig, count: usize) -> Vec<Example> {
    let set = Dataset::generate(config, 5, Split::Train, count).unwrap();
    (0..count).map(|i| set.example(i)).collect()
}

fn scored(example: &Example) -> Vec<(usize, i32)> {
    let targets = example.targets.iter().copied().enumerate();
    targets.filter(|&(_, target)| i64::from(target) != IGNORED).collect()
}

#[test]
fn mqar_asks_for_every_key_and_scores_its_value() {
    for layout in [Layout::Release, Layout::Zoology] {
        for filler in [Filler::Any, Filler::Disjoint, Filler::Zero] {
            let mqar = MqarConfig { seq_len: 64, pairs: 8, layout, filler, ..MqarConfig::default() };
            for example in examples(&TaskConfig::Mqar(mqar), 50) {
                let pairs: HashMap<i32, i32> =
                    (0..8).map(|i| (example.tokens[2 * i], example.tokens[2 * i + 1])).collect();
                assert_eq!(pairs.len(), 8, "keys differ");
                assert_eq!(pairs.values().collect::<HashSet<_>>().len(), 8, "values differ");
                assert!(pairs.iter().all(|(&k, &v)| (1..64).contains(&k) && (64..128).contains(&v)));
                let scored = scored(&example);
                assert_eq!(scored.len(), 8);
                let mut asked = HashSet::new();
                for (position, target) in scored {
                    assert_eq!(example.regions[position], Region::Query);
                    assert_eq!(example.regions[position + 1], Region::Answer);
                    assert_eq!(pairs[&example.tokens[position]], target);
                    asked.insert(example.tokens[position]);
                    assert!(position >= 16 && position % 2 == 0);
                    assert!(layout == Layout::Zoology || position >= 48);
                }
                assert_eq!(asked.len(), 8);
                for (position, &token) in example.tokens.iter().enumerate().skip(16) {
                    if example.regions[position] == Region::Query {
                        continue;
                    }
                    match filler {
                        Filler::Zero => assert_eq!(token, 0),
                        Filler::Any => assert!((1..128).contains(&token)),
                        Filler::Disjoint => {
                            assert!(!pairs.contains_key(&token) && !pairs.values().any(|&v| v == token));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn release_filler_may_be_a_key_of_the_sequence() {
    let mqar = MqarConfig { seq_len: 64, pairs: 8, ..MqarConfig::default() };
    let hit = examples(&TaskConfig::Mqar(mqar), 20).iter().any(|example| {
        let keys: HashSet<_> = (0..8).map(|i| example.tokens[2 * i]).collect();
        (16..48).any(|position| keys.contains(&example.tokens[position]))
    });
    assert!(hit);
}

#[test]
fn zoology_gaps_follow_the_power_law() {
    let mqar = MqarConfig { seq_len: 64, pairs: 1, layout: Layout::Zoology, ..MqarConfig::default() };
    let count = 20_000;
    let mut histogram = [0.0; 31];
    for example in examples(&TaskConfig::Mqar(mqar), count) {
        histogram[(scored(&example)[0].0 - 2) / 2] += 1.0 / count as f64;
    }
    let weights: Vec<f64> = (1..=31).map(|j| f64::from(j).powf(0.01 - 1.0)).collect();
    let total: f64 = weights.iter().sum();
    for (found, weight) in histogram.iter().zip(&weights) {
        assert!((found - weight / total).abs() < 0.012, "{found} against {}", weight / total);
    }
}

#[test]
fn selective_copying_repeats_the_data_in_order() {
    for (read_at, shift) in [(ReadAt::Previous, 1), (ReadAt::Blank, 0)] {
        let copying = CopyingConfig { seq_len: 100, read_at, ..CopyingConfig::default() };
        for example in examples(&TaskConfig::SelectiveCopying(copying), 50) {
            let content = 100 - 17;
            let data: Vec<i32> =
                example.tokens[..content].iter().copied().filter(|token| (3..=65).contains(token)).collect();
            assert_eq!(data.len(), 16);
            assert_eq!(data.iter().collect::<HashSet<_>>().len(), 16);
            assert_eq!(example.tokens[content], 1);
            assert!(example.tokens[content + 1..].iter().all(|&token| token == 2));
            let expected: Vec<(usize, i32)> =
                data.iter().enumerate().map(|(i, &token)| (content + 1 + i - shift, token)).collect();
            assert_eq!(scored(&example), expected);
            let noise = (0..content).filter(|&i| example.regions[i] == Region::Noise);
            assert!(noise.into_iter().all(|i| (67..=127).contains(&example.tokens[i])));
        }
    }
}

#[test]
fn induction_asks_for_the_pattern_after_the_trigger() {
    for example in examples(&TaskConfig::Induction(InductionConfig::default()), 50) {
        assert_eq!(scored(&example), [(254, example.tokens[2])]);
        let triggers: Vec<usize> = (0..256).filter(|&i| example.tokens[i] == 1).collect();
        assert_eq!(triggers, [1, 254]);
    }
}

#[test]
fn data_depends_on_the_seed_alone_and_validation_uses_the_next() {
    let config = TaskConfig::default();
    let draw = |seed, split| Dataset::generate(&config, seed, split, 3).unwrap().example(2);
    assert_eq!(draw(1, Split::Train), draw(1, Split::Train));
    assert_ne!(draw(1, Split::Train), draw(2, Split::Train));
    assert_eq!(draw(1, Split::Validation), draw(2, Split::Train));
    // Recorded once: a change here changes the data of every run.
    assert_eq!(draw(0, Split::Train).tokens[..8], RECORDED);
}

const RECORDED: [i32; 8] = [27, 76, 57, 124, 38, 107, 45, 102];

#[test]
fn an_epoch_visits_every_sequence_once_in_an_order_of_its_own() {
    let mut set = Dataset::generate(&TaskConfig::default(), 0, Split::Train, 40).unwrap();
    let mut epoch = |first: usize| -> Vec<usize> {
        (first..first + 4).flat_map(|step| set.order(step, 10).unwrap()).collect()
    };
    let (one, two) = (epoch(0), epoch(4));
    for order in [&one, &two] {
        assert_eq!(order.iter().collect::<HashSet<_>>().len(), 40);
    }
    assert_ne!(one, two);
    assert!(set.order(0, 41).unwrap_err().to_string().contains("1 to 40"));
}

#[test]
fn impossible_parameters_name_their_limit() {
    let mqar = |change: fn(&mut MqarConfig)| {
        let mut config = MqarConfig::default();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    let message = mqar(|c| c.pairs = 33);
    assert!(message.contains("1 to 32 at T = 128"), "{message}");
    let message = mqar(|c| (c.seq_len, c.pairs) = (1024, 64));
    assert!(message.contains("63 keys"), "{message}");
    assert!(mqar(|c| c.seq_len = 127).contains("even"));
    assert!(mqar(|c| c.vocab = 3).contains("at least 4"));
    assert!(mqar(|c| c.pairs = 0).contains("1 to 32"));
    assert!(mqar(|c| c.power = f64::NAN).contains("positive"));
    assert!(mqar(|c| c.seq_len = usize::MAX - 1).contains("at most"));
    let message =
        Dataset::generate(&TaskConfig::default(), 0, Split::Train, usize::MAX).unwrap_err().to_string();
    assert!(message.contains("number of sequences") && message.contains("T = 128"), "{message}");
    let copying = CopyingConfig { seq_len: 20, ..CopyingConfig::default() };
    assert!(copying.validate().unwrap_err().to_string().contains("at least 33"));
    let copying = CopyingConfig { data_tokens: 64, ..CopyingConfig::default() };
    assert!(copying.validate().unwrap_err().to_string().contains("1 to 63"));
    let induction = InductionConfig { seq_len: 4, ..InductionConfig::default() };
    assert!(induction.validate().unwrap_err().to_string().contains("at least 5"));
}
