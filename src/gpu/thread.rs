//! Many operations in a row on the thread that Burn keeps for a GPU.

use burn::backend::Cube;
use burn::tensor::{Device, Tensor};
use cubecl_common::device::{DeviceId, DeviceService, DeviceServiceStage, ServerUtilitiesHandle};
use cubecl_common::device_handle::{CallResultExt, DeviceHandle};
use cudarc::driver::sys::{CUstreamCaptureMode, cuThreadExchangeStreamCaptureMode};
use std::sync::Arc;

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

/// The same on the thread that launches a GPU's kernels.
struct Launching;

impl DeviceService for Launching {
    fn init(_: DeviceId) -> Self {
        Self
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        Arc::new(())
    }
}

/// While one thread records, CUDA forbids all others what could disturb it, such as asking for memory: a second GPU's
/// training would fail. Each GPU has its own thread and stream here, so each thread need only mind its own recording.
fn mind_own_recordings() {
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the mode is read and written during the call, and concerns this thread alone. A driver that doesn't know
    // the call leaves the thread as it was.
    let _ = unsafe { cuThreadExchangeStreamCaptureMode(&raw mut mode) };
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
    let device = probe.client.device().to_id();
    let launching = DeviceHandle::<Launching>::new(device);
    launching.submit_blocking(|_| mind_own_recordings()).unwrap_or_resume();
    DeviceHandle::<Guest>::new(device).exclusive(body).unwrap_or_resume()
}
