//! Named parameters of a cohort: how they start, how they stack, slice and flatten.

use crate::random::Generator;
use crate::{Error, Result};
use burn::tensor::{DType, Device, Gradients, Int, Tensor, TensorData};
use std::sync::Arc;

/// How a parameter starts.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// Every element has this value.
    Constant(f64),
    /// These values, in row-major order.
    Values(Vec<f64>),
    /// Independent normals with mean 0.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// Uniform in [−bound, bound).
    Uniform {
        /// Largest absolute value.
        bound: f64,
    },
    /// softplus⁻¹ of a step size Δ drawn log-uniformly: Mamba-2's initial Δ bias.
    InverseSoftplus {
        /// Smallest Δ.
        low: f64,
        /// Largest Δ.
        high: f64,
    },
}

/// Declaration of one parameter of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Dotted name, as in a PyTorch state dict.
    pub name: String,
    /// One or two dimensions; a linear map is [out, in].
    pub shape: Vec<usize>,
    /// Initial value.
    pub init: Init,
    /// Whether weight decay applies.
    pub decay: bool,
}

impl Spec {
    /// A parameter of one or two dimensions.
    pub fn new(name: impl Into<String>, shape: &[usize], init: Init) -> Self {
        Self { name: name.into(), shape: shape.to_vec(), init, decay: true }
    }

    /// The same parameter, spared by weight decay.
    #[must_use]
    pub fn without_decay(self) -> Self {
        Self { decay: false, ..self }
    }

    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The parameter as a matrix: a vector is one row.
    fn matrix(&self) -> [usize; 2] {
        match self.shape[..] {
            [rows, cols] => [rows, cols],
            _ => [1, self.count()],
        }
    }

    fn draw(&self, seed: u64) -> Vec<f64> {
        let mut generator = Generator::new(seed, &self.name);
        match &self.init {
            Init::Constant(value) => vec![*value; self.count()],
            Init::Values(values) => values.clone(),
            Init::Normal { std } => (0..self.count()).map(|_| std * generator.normal()).collect(),
            Init::Uniform { bound } => {
                (0..self.count()).map(|_| bound * (2.0 * generator.uniform() - 1.0)).collect()
            }
            Init::InverseSoftplus { low, high } => (0..self.count())
                .map(|_| {
                    let (low, high) = (libm::log(*low), libm::log(*high));
                    let delta = libm::exp(low + (high - low) * generator.uniform());
                    delta + libm::log(-libm::expm1(-delta))
                })
                .collect(),
        }
    }
}

/// The parameters of a cohort, each [runs, rows, columns].
#[derive(Clone, Debug)]
pub struct Parameters {
    specs: Arc<[Spec]>,
    values: Vec<Tensor<3>>,
    /// The same as one matrix, if they came from it and a GPU would have to join them.
    flat: Option<Tensor<2>>,
}

impl Parameters {
    /// Draws initial values for every run from its own seed: a run's parameters don't depend on
    /// which other runs are in the cohort.
    pub fn initialise(specs: Vec<Spec>, seeds: &[u64], device: &Device, dtype: DType) -> Self {
        let draw = |spec: &Spec| seeds.iter().flat_map(|&seed| spec.draw(seed)).collect();
        let values = specs.iter().map(|spec| tensor(draw(spec), seeds.len(), spec, device, dtype));
        Self { values: values.collect(), specs: specs.into(), flat: None }
    }

    /// Parameters of one run from named arrays, as `lookup` gives them (row-major).
    ///
    /// # Errors
    ///
    /// If `lookup` lacks a name (it returns `None`) or gives another number of elements.
    pub fn load(
        specs: Vec<Spec>,
        device: &Device,
        dtype: DType,
        lookup: impl Fn(&str) -> Option<Vec<f64>>,
    ) -> Result<Self> {
        let load = |spec: &Spec| {
            let Some(values) = lookup(&spec.name) else {
                let present: Vec<_> =
                    specs.iter().map(|s| s.name.as_str()).filter(|name| lookup(name).is_some()).collect();
                return Err(Error::MissingParameter { name: spec.name.clone(), present: present.join(", ") });
            };
            if values.len() != spec.count() {
                let expected = format!("{} elements {:?}", spec.count(), spec.shape);
                return Err(Error::value(format!("parameter `{}`", spec.name), expected, values.len()));
            }
            Ok(tensor(values, 1, spec, device, dtype))
        };
        let values = specs.iter().map(load).collect::<Result<_>>()?;
        Ok(Self { values, specs: specs.into(), flat: None })
    }

    /// Declarations, in order.
    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.values.first().map_or(0, |value| value.dims()[0])
    }

    /// Number of elements of one run.
    pub fn count(&self) -> usize {
        self.specs.iter().map(Spec::count).sum()
    }

    /// Value [runs, rows, columns] of a parameter; a vector has one row.
    ///
    /// # Errors
    ///
    /// If there is no parameter of this name.
    pub fn get(&self, name: &str) -> Result<Tensor<3>> {
        match self.specs.iter().position(|spec| spec.name == name) {
            Some(index) => Ok(self.values[index].clone()),
            None => Err(Error::MissingParameter {
                name: name.to_owned(),
                present: self.specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// Row-major values of one run's parameter, by position in [`specs`](Self::specs).
    pub fn values_of(&self, index: usize, run: usize) -> Vec<f64> {
        plain(&self.values[index]).narrow(0, run, 1).into_data().iter().collect()
    }

    /// Parameters of the given runs, in the given order.
    pub fn select(&self, runs: &[usize]) -> Self {
        if let Some(flat) = &self.flat {
            return self.unflatten(select_runs(flat, runs));
        }
        let pick = |value: &Tensor<3>| select_runs(&plain(value), runs);
        Self { specs: self.specs.clone(), values: self.values.iter().map(pick).collect(), flat: None }
    }

    /// One cohort from several with the same declarations.
    ///
    /// # Errors
    ///
    /// If the declarations differ in a name or shape, or there is no cohort.
    pub fn stack(cohorts: &[Self]) -> Result<Self> {
        let Some((first, others)) = cohorts.split_first() else {
            return Err(Error::value("cohorts", "at least one", 0));
        };
        for other in others {
            let same = |(a, b): (&Spec, &Spec)| a.name == b.name && a.shape == b.shape;
            if first.specs.len() != other.specs.len() || !first.specs.iter().zip(&*other.specs).all(same) {
                return Err(Error::value("cohorts", "equal parameter names and shapes", "others"));
            }
        }
        #[cfg(feature = "cuda")]
        if first.values.first().is_some_and(crate::gpu::single) {
            let flat = Tensor::cat(cohorts.iter().map(Self::flatten).collect(), 0);
            return Ok(first.unflatten(flat));
        }
        let values = (0..first.values.len())
            .map(|i| Tensor::cat(cohorts.iter().map(|cohort| cohort.values[i].clone()).collect(), 0));
        Ok(Self { specs: first.specs.clone(), values: values.collect(), flat: None })
    }

    /// The same values as leaves of the autodiff graph.
    pub fn require_grad(&self) -> Self {
        let leaf = |value: &Tensor<3>| plain(value).autodiff().require_grad();
        Self { specs: self.specs.clone(), values: self.values.iter().map(leaf).collect(), flat: None }
    }

    /// Gradients of all parameters as one matrix [runs, parameters], in the order of the specs. A
    /// parameter that the loss doesn't depend on has gradient 0.
    pub fn take_gradients(&self, gradients: &mut Gradients) -> Tensor<2> {
        self.take_gradients_but(gradients, &[])
    }

    /// As [`take_gradients`](Self::take_gradients), with the gradients of some parameters, by name, from
    /// elsewhere.
    pub(crate) fn take_gradients_but(
        &self,
        gradients: &mut Gradients,
        given: &[(&str, Tensor<3>)],
    ) -> Tensor<2> {
        let each = self.values.iter().zip(&*self.specs).map(|(value, spec)| {
            if let Some((_, grad)) = given.iter().find(|(name, _)| *name == spec.name) {
                return grad.clone();
            }
            value.grad_remove(gradients).unwrap_or_else(|| value.clone().inner().zeros_like())
        });
        join(each.collect())
    }

    /// 1 where weight decay applies and 0 elsewhere, as a row [1, parameters]; none if it applies to all.
    pub fn decay_mask(&self) -> Option<Tensor<2>> {
        let value = self.values.first().filter(|_| self.specs.iter().any(|spec| !spec.decay))?;
        let part = |spec: &Spec| vec![f32::from(u8::from(spec.decay)); spec.count()];
        let mask = TensorData::new(self.specs.iter().flat_map(part).collect(), [1, self.count()]);
        Some(Tensor::from_data(mask, (&plain(value).device(), value.dtype())))
    }

    /// All parameters as one matrix [runs, parameters].
    pub fn flatten(&self) -> Tensor<2> {
        match &self.flat {
            Some(flat) => flat.clone(),
            None => join(self.values.iter().map(plain).collect()),
        }
    }

    /// Parameters with the values of a matrix as [`flatten`](Self::flatten) makes it.
    pub fn unflatten(&self, flat: Tensor<2>) -> Self {
        let shapes: Vec<[usize; 2]> = self.specs.iter().map(Spec::matrix).collect();
        let specs = self.specs.clone();
        #[cfg(feature = "cuda")]
        if crate::gpu::single(&flat) {
            let values = crate::gpu::flat::split(&flat, &shapes);
            return Self { values, specs, flat: Some(flat) };
        }
        let runs = flat.dims()[0];
        let mut start = 0;
        let values = shapes.iter().map(|[rows, cols]| {
            let part = flat.clone().narrow(1, start, rows * cols);
            start += rows * cols;
            part.reshape([runs, *rows, *cols])
        });
        Self { values: values.collect(), specs, flat: None }
    }
}

/// Parameters [runs, rows, columns] side by side as a matrix [runs, all elements]. On a GPU in other than single
/// precision one after another: Burn's concatenation there is one kernel that looks through all of its inputs for
/// each element, 23 ms for the 92 parameters of three language models.
fn join(parts: Vec<Tensor<3>>) -> Tensor<2> {
    #[cfg(feature = "cuda")]
    if parts.first().is_some_and(crate::gpu::single) {
        return crate::gpu::flat::join(&parts);
    }
    let parts: Vec<Tensor<2>> = parts.into_iter().map(|part| part.flatten(1, 2)).collect();
    let Some(first) = parts.first() else { return Tensor::cat(parts, 1) };
    if crate::device::is_cpu(&first.device()) {
        return Tensor::cat(parts, 1);
    }
    let runs = first.dims()[0];
    let count = parts.iter().map(|part| part.dims()[1]).sum();
    let mut all = Tensor::zeros([runs, count], (&first.device(), first.dtype()));
    let mut start = 0;
    for part in parts {
        let end = start + part.dims()[1];
        all = all.slice_assign([0..runs, start..end], part);
        start = end;
    }
    all
}

fn tensor(values: Vec<f64>, runs: usize, spec: &Spec, device: &Device, dtype: DType) -> Tensor<3> {
    let [rows, cols] = spec.matrix();
    Tensor::from_data(TensorData::new(values, [runs, rows, cols]), (device, dtype))
}

/// A tensor outside the autodiff graph, wherever it is now.
pub(crate) fn plain<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    let tensor = tensor.clone();
    if tensor.is_autodiff() { tensor.inner() } else { tensor }
}

/// The given runs of a tensor whose first axis is the run, in the given order.
pub(crate) fn select_runs<const D: usize>(tensor: &Tensor<D>, runs: &[usize]) -> Tensor<D> {
    // One kernel whatever the runs: parts and their concatenation would be others for every number of them.
    let places: Vec<i64> = runs.iter().map(|&run| run as i64).collect();
    let places = Tensor::<1, Int>::from_data(TensorData::new(places, [runs.len()]), &tensor.device());
    tensor.clone().select(0, places)
}
