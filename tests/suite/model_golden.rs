//! The recall model against PyTorch: logits, loss, λ and every gradient.

use crate::fixture::{Fixture, assert_close, device, f32_tolerance, values};
use burn::tensor::DType;
use loglinear::burn;
use loglinear::cohort::Parameters;
use loglinear::lambda::{Activation, Hidden, InitProtocol, LambdaConfig, LambdaKind};
use loglinear::model::{Model, ModelConfig, cross_entropy};

pub const CASES: [(LambdaKind, &str); 3] = [
    (LambdaKind::Fixed, "model_fixed_dev.safetensors"),
    (LambdaKind::MlpSoftplus, "model_softplus_dev.safetensors"),
    (LambdaKind::MlpSoftmax, "model_softmax_dev.safetensors"),
];

pub fn model(kind: LambdaKind) -> Model {
    Model::new(ModelConfig {
        vocab: 32,
        d_model: 16,
        max_seq_len: 48,
        chunk: 16,
        lambda: LambdaConfig {
            kind,
            activation: Activation::Gelu,
            hidden: Hidden::Width(12),
            init: InitProtocol::Release,
            custom: None,
        },
        ..ModelConfig::default()
    })
    .unwrap()
}

pub fn parameters(model: &Model, fixture: &Fixture, prefix: &str, dtype: DType) -> Parameters {
    let lookup = |name: &str| fixture.get(&format!("{prefix}.{name}"));
    Parameters::load(model.specs(), &device(), dtype, lookup).unwrap()
}

fn check(dtype: DType, tolerance: f64) {
    for (kind, file) in CASES {
        let (model, fixture) = (model(kind), Fixture::open(file));
        let leaves = parameters(&model, &fixture, "init", dtype).require_grad();
        let tokens = fixture.integers::<2>("tokens", &device()).unsqueeze_dim(0);
        let targets = fixture.integers::<2>("targets", &device()).unsqueeze_dim(0);
        let captured = model.capture(&leaves, tokens).unwrap();
        let close = |key: &str, found: &[f64]| {
            assert_close(&format!("{file} {key} {dtype:?}"), found, fixture.values(key), tolerance);
        };
        close("logits", &values(captured.logits.clone().inner()));
        for (layer, lambda) in captured.lambda.iter().enumerate() {
            close(&format!("lam.{layer}"), &values(lambda.clone().inner()));
        }
        let loss = cross_entropy(captured.logits, targets).unwrap();
        close("loss", &values(loss.clone().inner()));
        let mut gradients = loss.sum().backward();
        let flat = values(leaves.take_gradients(&mut gradients));
        let mut start = 0;
        for spec in leaves.specs() {
            let end = start + spec.count();
            close(&format!("grad.{}", spec.name), &flat[start..end]);
            start = end;
        }
    }
}

#[test]
fn logits_loss_lambda_and_gradients_equal_pytorch_in_f64() {
    check(DType::F64, 1e-8);
}

#[test]
fn logits_loss_lambda_and_gradients_equal_pytorch_in_f32() {
    check(DType::F32, f32_tolerance(2e-4, 1e-2));
}

#[test]
fn tensor_operations_without_our_kernels_pass_the_golden_tests_too() {
    // What a GPU runs, on the CPU: the choice is made once a process, so this needs one of its own.
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["golden::", "language::", "--skip", "tensor_operations_without_our_kernels"])
        .env("LOGLINEAR_PORTABLE", "1")
        .env("LOGLINEAR_TEST_DEVICE", "cpu")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = text.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(output.status.success() && passed >= 20, "{text}");
}
