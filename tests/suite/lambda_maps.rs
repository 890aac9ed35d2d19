//! λ maps: how they start, what they cost, and a map of a reader's own.

use crate::fixture::{device, values};
use burn::tensor::{DType, Int, Tensor, TensorData};
use loglinear::Result;
use loglinear::burn;
use loglinear::cohort::{Init, Parameters, Spec, softplus};
use loglinear::frame::run_lambda;
use loglinear::lambda::*;
use loglinear::model::{Mixer, Model, ModelConfig, cross_entropy, parameter_overhead};
use loglinear::train::{Job, RunConfig, RunFolder, train};
use std::sync::Arc;

fn tokens(runs: usize, batch: usize, time: usize) -> Tensor<3, Int> {
    let values: Vec<i64> = (0..runs * batch * time).map(|i| (i * 7 % 128) as i64).collect();
    Tensor::from_data(TensorData::new(values, [runs, batch, time]), &device())
}

fn with_nine_levels() -> ModelConfig {
    ModelConfig { max_seq_len: 256, ..ModelConfig::default() }
}

fn captured(config: &LambdaConfig) -> Vec<Vec<f64>> {
    let model = Model::new(ModelConfig { lambda: config.clone(), ..with_nine_levels() }).unwrap();
    let parameters = Parameters::initialise(model.specs(), &[3], &device(), DType::F64);
    let captured = model.capture(&parameters, tokens(1, 2, 50)).unwrap();
    captured.lambda.into_iter().map(values).collect()
}

#[test]
fn the_text_start_is_the_identity_of_softplus_054() {
    let expected = 0.54_f64.exp().ln_1p();
    for layer in captured(&LambdaConfig::text(LambdaKind::MlpSoftplus)) {
        assert!(layer.iter().all(|&value| (value - expected).abs() < 1e-15), "{:?}", &layer[..3]);
    }
    for layer in captured(&LambdaConfig::text(LambdaKind::MlpSoftmax)) {
        assert!(layer.iter().all(|&value| (value - 1.0 / 9.0).abs() < 1e-15));
    }
}

#[test]
fn the_release_start_is_near_softplus_of_zero_and_depends_on_the_token() {
    for layer in captured(&LambdaConfig::release(LambdaKind::MlpSoftplus)) {
        assert!(layer.iter().all(|&value| (value - 2_f64.ln()).abs() < 1e-2));
        assert!(layer.iter().any(|&value| value != layer[0]));
    }
}

/// A reader's own map: one learned number for each head and level, whatever the token.
#[derive(Debug)]
struct PerLevel {
    start: f64,
}

impl LambdaMap for PerLevel {
    fn kind(&self) -> String {
        "per-level".to_owned()
    }

    fn specs(&self, heads: usize, levels: usize) -> Vec<Spec> {
        vec![Spec::new("logit", &[heads, levels], Init::Constant(self.start))]
    }

    fn forward(&self, input: LambdaInput, parameters: Scope<'_>) -> Result<Tensor<4>> {
        let [runs, tokens, heads, levels] = input.d.dims();
        let logit = parameters.get("logit")?.reshape([runs, 1, heads, levels]);
        Ok(softplus(logit).expand([runs, tokens, heads, levels]))
    }
}

fn custom_config() -> ModelConfig {
    let lambda = LambdaConfig { custom: Some("per-level".to_owned()), ..LambdaConfig::default() };
    ModelConfig { lambda, max_seq_len: 16, ..ModelConfig::default() }
}

#[test]
fn the_text_start_gives_the_output_of_that_constant_lambda() {
    let text = ModelConfig { max_seq_len: 16, ..ModelConfig::default() };
    let text = Model::new(text).unwrap();
    let constant = Model::with_lambda(custom_config(), Arc::new(PerLevel { start: 0.54 })).unwrap();
    let logits = |model: &Model| {
        let parameters = Parameters::initialise(model.specs(), &[8], &device(), DType::F64);
        values(model.forward(&parameters, tokens(1, 2, 16)).unwrap())
    };
    crate::fixture::assert_close("logits", &logits(&text), &logits(&constant), 1e-14);
}

#[test]
fn a_readers_own_map_trains_and_is_captured() {
    let folder = tempfile::tempdir().unwrap();
    let mut config: RunConfig = crate::training::tiny();
    config.model.lambda = custom_config().lambda;
    config.train.steps = 30;
    let map: Arc<dyn LambdaMap> = Arc::new(PerLevel { start: 0.0 });
    let job = Job { config, folder: folder.path().join("run"), lambda: Some(map.clone()) };
    let result = &train(std::slice::from_ref(&job), &crate::training::options()).unwrap()[0];
    assert_eq!((result.kind.as_str(), result.steps), ("per-level", 30));
    let run = RunFolder::open(&job.folder).unwrap();
    let frame = run_lambda(&run, 2, None, Some(map), &device()).unwrap();
    let column = frame.column("lambda").unwrap().f32().unwrap();
    let learned: Vec<f32> = column.iter().flatten().collect();
    assert!(learned.iter().any(|&value| (f64::from(value) - 2_f64.ln()).abs() > 1e-4), "λ did not move");
    // Without the map the run can't be opened, and the message says why.
    let message = run.model(None).unwrap_err().to_string();
    assert!(message.contains("custom") && message.contains("per-level"), "{message}");
}

#[test]
fn a_map_of_the_wrong_shape_or_name_is_refused() {
    #[derive(Debug)]
    struct Wrong;
    impl LambdaMap for Wrong {
        fn kind(&self) -> String {
            "per-level".to_owned()
        }
        fn specs(&self, _: usize, _: usize) -> Vec<Spec> {
            Vec::new()
        }
        fn forward(&self, input: LambdaInput, _: Scope<'_>) -> Result<Tensor<4>> {
            Ok(input.d.narrow(3, 0, 1))
        }
    }
    let model = Model::with_lambda(custom_config(), Arc::new(Wrong)).unwrap();
    let parameters = Parameters::initialise(model.specs(), &[0], &device(), DType::F32);
    let message = model.forward(&parameters, tokens(1, 1, 16)).unwrap_err().to_string();
    assert!(message.contains("per-level") && message.contains("[1, 16, 1, 1]"), "{message}");
    let message = Model::with_lambda(ModelConfig::default(), Arc::new(Wrong)).unwrap_err().to_string();
    assert!(message.contains("per-level"), "{message}");
}

#[test]
fn parameter_overhead_counts_the_maps_own_parameters() {
    let overhead = |lambda: LambdaConfig, mixer: Mixer| {
        parameter_overhead(&Model::new(ModelConfig { lambda, mixer, ..with_nine_levels() }).unwrap())
    };
    // 9 levels: Lp is 9; text W1 18×9, W2 9×18, b2 9; release W1 64×9, b1 64, W2 9×64, b2 9.
    let fixed = overhead(LambdaConfig::text(LambdaKind::Fixed), Mixer::LogLinear);
    assert_eq!(fixed.lambda, 2 * 9);
    let text = overhead(LambdaConfig::text(LambdaKind::MlpSoftplus), Mixer::LogLinear);
    assert_eq!(text.lambda, 2 * (18 * 9 + 9 * 18 + 9));
    let release = overhead(LambdaConfig::release(LambdaKind::MlpSoftmax), Mixer::LogLinear);
    assert_eq!(release.lambda, 2 * (64 * 9 + 64 + 9 * 64 + 9));
    assert_eq!(release.total - release.lambda, fixed.total - fixed.lambda);
    assert!((text.fraction() - text.lambda as f64 / text.total as f64).abs() < 1e-15);
    for mixer in [Mixer::Linear, Mixer::Softmax] {
        assert_eq!(overhead(LambdaConfig::default(), mixer).lambda, 0);
    }
}

#[test]
fn configurations_round_trip_and_name_what_is_wrong() {
    for kind in LambdaKind::ALL {
        for lambda in [LambdaConfig::text(kind), LambdaConfig::release(kind)] {
            let config =
                RunConfig { model: ModelConfig { lambda, ..ModelConfig::default() }, ..RunConfig::default() };
            let read: RunConfig = toml::from_str(&config.to_toml()).unwrap();
            assert_eq!(read, config);
        }
    }
    let wrong = [
        ("[model.lambda]\nhiden = 3", "hiden"),
        ("[model.lambda]\nhidden = \"3L\"", "2L"),
        ("[model.lambda]\nkind = \"mlp\"", "mlp-softplus"),
        ("[train]\nlr = 1", "lr"),
        ("[task]\nname = \"mqar\"\npair = 4", "pair"),
        ("[task]\nname = \"copy\"", "selective-copying"),
        ("sed = 3", "sed"),
    ];
    for (text, named) in wrong {
        let message = toml::from_str::<RunConfig>(text).unwrap_err().to_string();
        assert!(message.contains(named), "{text}: {message}");
    }
}

#[test]
fn wrong_tokens_and_targets_are_named() {
    let model = Model::new(ModelConfig::default()).unwrap();
    let parameters = Parameters::initialise(model.specs(), &[0], &device(), DType::F32);
    let message = model.forward(&parameters, tokens(1, 1, 4).add_scalar(125)).unwrap_err().to_string();
    assert!(message.contains("tokens must be in 0..128") && message.contains("132"), "{message}");
    let message = model.forward(&parameters, tokens(2, 1, 4)).unwrap_err().to_string();
    assert!(message.contains("runs = 1") && message.contains("[2, 1, 4]"), "{message}");
    let message = model.forward(&parameters, tokens(1, 1, 129)).unwrap_err().to_string();
    assert!(message.contains("max_seq_len = 128"), "{message}");
    let logits = model.forward(&parameters, tokens(1, 1, 4)).unwrap();
    let message = cross_entropy(logits, tokens(1, 1, 4).neg()).unwrap_err().to_string();
    assert!(message.contains("targets must be in 0..128 or -100") && message.contains("-7"), "{message}");
}
