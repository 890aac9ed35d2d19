//! Golden tensors of other implementations, and comparisons against them.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use loglinear::burn;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::Path;

/// Named arrays of one safetensors file, widened to f64.
pub struct Fixture(BTreeMap<String, (Vec<usize>, Vec<f64>)>);

impl Fixture {
    pub fn open(name: &str) -> Self {
        // At run time, so that a binary built elsewhere finds its fixtures beside it.
        let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".to_owned());
        let path = Path::new(&root).join("tests/fixtures").join(name);
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let read = |(name, view): (String, safetensors::tensor::TensorView)| {
            let chunks = view.data().chunks_exact(8);
            let halves = view.data().chunks_exact(4);
            let values: Vec<f64> = match view.dtype() {
                Dtype::F64 => chunks.map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
                Dtype::F32 => halves.map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect(),
                Dtype::I64 => chunks.map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect(),
                other => panic!("{name}: {other:?}"),
            };
            (name, (view.shape().to_vec(), values))
        };
        Self(file.tensors().into_iter().map(read).collect())
    }

    pub fn values(&self, name: &str) -> &[f64] {
        &self.0.get(name).unwrap_or_else(|| panic!("fixture lacks {name}")).1
    }

    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.0.keys().cloned()
    }

    pub fn shape(&self, name: &str) -> &[usize] {
        &self.0[name].0
    }

    pub fn get(&self, name: &str) -> Option<Vec<f64>> {
        self.0.get(name).map(|(_, values)| values.clone())
    }

    pub fn tensor<const D: usize>(&self, name: &str, device: &Device, dtype: DType) -> Tensor<D> {
        let data = TensorData::new(self.values(name).to_vec(), self.shape(name).to_vec());
        Tensor::from_data(data, (device, dtype))
    }

    pub fn integers<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D, Int> {
        let values: Vec<i64> = self.values(name).iter().map(|&value| value as i64).collect();
        Tensor::from_data(TensorData::new(values, self.shape(name).to_vec()), device)
    }
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter().collect()
}

/// Largest difference relative to the largest expected magnitude; NaN if any value is.
pub fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1e-30_f64, |max, x| max.max(x.abs()));
    found.iter().zip(expected).fold(0.0, |worst: f64, (a, b)| {
        let error = (a - b).abs() / scale;
        if error.is_nan() || error > worst { error } else { worst }
    })
}

#[track_caller]
pub fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    let error = error(found, expected);
    assert!(error <= tolerance, "{what}: relative error {error:e} exceeds {tolerance:e}");
}

/// Tolerance in f32: products on a GPU's tensor cores round their factors to TF32 (10 bits). What a
/// GPU computes exactly is tested there in f64.
pub fn f32_tolerance(on_cpu: f64, on_gpu: f64) -> f64 {
    if loglinear::device::is_cpu(&device()) { on_cpu } else { on_gpu }
}

/// Device under test: `LOGLINEAR_TEST_DEVICE`, by default the CPU.
pub fn device() -> Device {
    let name = std::env::var("LOGLINEAR_TEST_DEVICE").unwrap_or_else(|_| "cpu".to_owned());
    loglinear::device::parse(&name).unwrap()
}
