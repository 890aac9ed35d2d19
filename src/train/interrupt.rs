//! A request to stop after the current step.

use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that asks training loops to stop and leave resumable folders. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that Ctrl-C and a termination signal set. A second Ctrl-C ends the process at once.
    ///
    /// # Errors
    ///
    /// If the process has a signal handler already.
    pub fn on_signal() -> Result<Self> {
        let interrupt = Self::default();
        let flag = interrupt.clone();
        ctrlc::set_handler(move || {
            if flag.is_requested() {
                std::process::exit(1);
            }
            flag.request();
        })
        .map_err(|error| Error::value("signal handler", "free to set", error))?;
        Ok(interrupt)
    }

    /// Asks to stop.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was asked for.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
