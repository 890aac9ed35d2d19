//! Elementwise functions on the CPU.

use super::{Contiguous, HostOp, HostTensor, Scalar, tensor, vectorised, with_scalar};
use rayon::prelude::*;

/// Elements that one task handles.
const BLOCK: usize = 1 << 14;

/// An elementwise function, computed with its derivative recomputed in the backward pass.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pointwise {
    /// x · Φ(x), exact (not the tanh approximation).
    Gelu,
    /// ln(1 + e^x).
    Softplus,
}

impl HostOp<1> for Pointwise {
    fn forward(&self, [x]: &[HostTensor; 1]) -> HostTensor {
        with_scalar!(x, forward(*self, x))
    }

    fn backward(&self, [x]: &[HostTensor; 1], grad: HostTensor, _: [bool; 1]) -> [Option<HostTensor>; 1] {
        [Some(with_scalar!(x, backward(*self, x, &grad)))]
    }
}

fn forward<S: Scalar>(function: Pointwise, x: &HostTensor) -> HostTensor {
    let shape = x.layout().shape().clone();
    let x = Contiguous::new(x);
    let x = x.slice::<S>();
    let mut out = vec![S::ZERO; x.len()];
    out.par_chunks_mut(BLOCK).zip(x.par_chunks(BLOCK)).for_each(|(out, x)| {
        vectorised(|| match function {
            Pointwise::Gelu => out.iter_mut().zip(x).for_each(|(out, &x)| *out = x * x.normal().0),
            Pointwise::Softplus => out.iter_mut().zip(x).for_each(|(out, &x)| *out = x.softplus()),
        });
    });
    tensor(out, shape)
}

fn backward<S: Scalar>(function: Pointwise, x: &HostTensor, grad: &HostTensor) -> HostTensor {
    let shape = x.layout().shape().clone();
    let (x, grad) = (Contiguous::new(x), Contiguous::new(grad));
    let (x, grad) = (x.slice::<S>(), grad.slice::<S>());
    let mut out = vec![S::ZERO; x.len()];
    out.par_chunks_mut(BLOCK).zip(x.par_chunks(BLOCK)).zip(grad.par_chunks(BLOCK)).for_each(
        |((out, x), grad)| {
            let each = out.iter_mut().zip(x).zip(grad);
            vectorised(|| match function {
                Pointwise::Gelu => each.for_each(|((out, &x), &grad)| {
                    let (distribution, density) = x.normal();
                    *out = grad * (distribution + x * density);
                }),
                Pointwise::Softplus => each.for_each(|((out, &x), &grad)| *out = grad * x.sigmoid()),
            });
        },
    );
    tensor(out, shape)
}
