//! The language model against flash-linear-attention's `LogLinearMamba2ForCausalLM`: logits, loss, every
//! gradient; weights there and back.

use crate::fixture::{Fixture, assert_close, device, values};
use burn::tensor::{DType, Int, Tensor};
use loglinear::burn;
use loglinear::cohort::Parameters;
use loglinear::lambda::{LambdaConfig, LambdaKind};
use loglinear::model::{IGNORED, LanguageConfig, Model, ModelConfig, export, import};

const FILE: &str = "lm_dev.safetensors";

fn model() -> Model {
    Model::new(ModelConfig {
        vocab: 97,
        d_model: 128,
        layers: 2,
        heads: 2,
        lambda: LambdaConfig::text(LambdaKind::Fixed),
        language: Some(LanguageConfig { state: 64, ..LanguageConfig::default() }),
        ..ModelConfig::language()
    })
    .unwrap()
}

/// Their name of one of our parameters.
fn theirs(name: &str) -> String {
    name.replace(".mixer.lp", ".mixer.L")
}

fn parameters(fixture: &Fixture, dtype: DType) -> Parameters {
    let lookup = |name: &str| fixture.get(&format!("p.{}", theirs(name)));
    Parameters::load(model().specs(), &device(), dtype, lookup).unwrap()
}

/// Tokens, and the next one of each position; the last has none.
fn data(fixture: &Fixture) -> (Tensor<3, Int>, Tensor<3, Int>) {
    let tokens: Tensor<3, Int> = fixture.integers::<2>("tokens", &device()).unsqueeze_dim(0);
    let [runs, batch, time] = tokens.dims();
    let next = tokens.clone().narrow(2, 1, time - 1);
    let none = Tensor::full([runs, batch, 1], IGNORED, &device());
    (tokens, Tensor::cat(vec![next, none], 2))
}

fn check(dtype: DType, tolerance: f64) {
    let (model, fixture) = (model(), Fixture::open(FILE));
    let leaves = parameters(&fixture, dtype).require_grad();
    let (tokens, targets) = data(&fixture);
    let close = |key: &str, found: &[f64]| {
        let expected = fixture.values(key);
        // The smallest gradients are sums over positions that cancel to 1e−8 and less, a millionth of the
        // others; the TF32 products of their kernel leave 3e−3 in them. Finite differences check ours.
        let tiny = expected.iter().all(|value| value.abs() < 1e-8);
        let tolerance = if tiny { 2.5 * tolerance } else { tolerance };
        assert_close(&format!("{key} {dtype:?}"), found, expected, tolerance);
    };
    close("logits", &values(model.forward(&leaves, tokens.clone()).unwrap().inner()));
    let [_, batch, time] = tokens.dims();
    let (loss, gradients) =
        model.differentiate(&parameters(&fixture, dtype), tokens, targets, &[batch * (time - 1)]).unwrap();
    close("loss", &values(loss));
    let flat = values(gradients);
    let mut start = 0;
    for spec in leaves.specs() {
        let end = start + spec.count();
        close(&format!("g.{}", theirs(&spec.name)), &flat[start..end]);
        start = end;
    }
}

#[test]
fn logits_loss_and_gradients_equal_flash_linear_attention_in_f32() {
    check(DType::F32, crate::fixture::f32_tolerance(2e-3, 2e-2));
}

#[test]
fn logits_loss_and_gradients_equal_flash_linear_attention_in_f64() {
    // Their numbers are those of a GPU in f32.
    check(DType::F64, 2e-3);
}

#[test]
fn weights_go_to_flash_linear_attention_and_back_unchanged() {
    let fixture = Fixture::open(FILE);
    let ours = parameters(&fixture, DType::F32);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    export(&model(), &ours, &path).unwrap();
    // Exactly their names and shapes, which PyTorch's load_state_dict insists on.
    let bytes = std::fs::read(&path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut names: Vec<String> = file.names().iter().map(|name| format!("p.{name}")).collect();
    names.sort();
    assert_eq!(names, fixture.names().filter(|name| name.starts_with("p.")).collect::<Vec<_>>());
    for (name, view) in file.tensors() {
        assert_eq!(view.shape(), fixture.shape(&format!("p.{name}")), "{name}");
    }
    let (read, parameters) = import(&path, &device()).unwrap();
    assert_eq!(read.config(), model().config());
    assert_eq!(values(parameters.flatten()), values(ours.flatten()));
}

#[test]
fn files_that_are_no_such_model_are_refused_with_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let message = || import(&path, &device()).unwrap_err().to_string();
    assert!(message().contains("model.safetensors"));
    std::fs::write(&path, b"nonsense").unwrap();
    assert!(message().contains("safetensors"), "{}", message());
    export(&model(), &parameters(&Fixture::open(FILE), DType::F32), &path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    // A tensor under another name, of the same length.
    let mut renamed = whole.clone();
    let place = whole.windows(6).position(|window| window == b"norm_f").unwrap();
    renamed[place + 5] = b'g';
    std::fs::write(&path, renamed).unwrap();
    assert!(message().contains("norm_g.weight"), "{}", message());
    std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    assert!(message().contains("safetensors"), "{}", message());
}
