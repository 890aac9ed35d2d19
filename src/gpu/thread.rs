//! Many operations in a row on the thread that Burn keeps for a GPU.

use burn::backend::Cube;
use burn::tensor::{Device, Tensor};
use cubecl_common::device::{DeviceId, DeviceService, DeviceServiceStage, ServerUtilitiesHandle};
use cubecl_common::device_handle::{CallResultExt, DeviceHandle};
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A service that does nothing: it is there to be asked for a turn on the thread of Burn's lazy operations.
struct Guest;

impl DeviceService for Guest {
    fn init(_: DeviceId) -> Self {
        Self
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        Arc::new(())
    }

    fn stage() -> DeviceServiceStage {
        DeviceServiceStage::Upstream
    }
}

/// Runs `body` on the thread that orders a GPU's operations, so that asking for the memory behind a tensor, some 130
/// times a training step, is a call and no exchange of messages between threads. Kernels are launched by another
/// thread, which goes on meanwhile. Other threads' operations on the GPU wait until `body` ends.
pub(crate) fn run<R: Send>(device: &Device, body: impl FnOnce() -> R + Send) -> R {
    // Adding the service holds a lock that work in the queue of that thread may ask for, so the queue must be empty:
    // reading a number waits for that.
    let probe = Tensor::<1>::zeros([1], &crate::device::plain(device));
    let _ = probe.clone().into_data();
    let probe = probe.try_into_primitive::<Cube>().expect("the device is a GPU");
    let guest = DeviceHandle::<Guest>::new(probe.client.device().to_id());
    let counted = || {
        let _here = Here::enter();
        body()
    };
    guest.exclusive(counted).unwrap_or_resume()
}

/// How many devices' threads run a body.
static BUSY: Mutex<usize> = Mutex::new(0);

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

fn busy() -> MutexGuard<'static, usize> {
    BUSY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts this thread among the busy ones while it lives.
struct Here;

impl Here {
    fn enter() -> Self {
        if DEPTH.get() == 0 {
            *busy() += 1;
        }
        DEPTH.set(DEPTH.get() + 1);
        Self
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            *busy() -= 1;
        }
    }
}

/// Runs `body` while no other GPU of this process is at work, or returns nothing. CUDA forbids all threads much of its
/// interface while one records.
pub(crate) fn alone<R>(body: impl FnOnce() -> R) -> Option<R> {
    let busy = busy();
    (*busy <= 1).then(body)
}
