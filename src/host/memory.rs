//! Memory that is kept between steps.
//!
//! A training step allocates and frees the same large buffers every time. glibc gives such buffers
//! back to the system at once, so each step pays for page faults and for telling the other cores:
//! half of the step's time, measured on two cores. Keeping freed memory in the process avoids that.

use std::sync::Once;

static KEPT: Once = Once::new();

/// Asks the allocator to keep freed memory, once per process. Does nothing where the C library
/// isn't glibc.
pub(crate) fn keep_freed() {
    KEPT.call_once(keep);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
fn keep() {
    const LARGEST: libc::c_int = 1 << 30;
    // SAFETY: `mallopt` takes two integers, is thread-safe, and only tunes when memory is returned.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        libc::mallopt(libc::M_TOP_PAD, 1 << 26);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep() {}
