//! Compiled GPU kernels: kept in a place that the program chooses, carried from machine to machine, and counted when
//! they are compiled anew. CubeCL compiles and keeps them; this module tells it where, before it starts.
//!
//! A first start compiles for up to a minute, a later one takes kernels from the place. [`Place`] says where that is and
//! why, [`export`] and [`import`] carry it, [`Compiled`] says what a process compiled. All but the last work without the
//! `cuda` feature too.

mod carry;
mod compiled;
#[cfg_attr(not(feature = "cuda"), path = "no_compiler.rs")]
mod compiler;
mod contents;
mod database;
mod place;

pub use carry::{Existing, Manifest, export, import};
pub use compiled::Compiled;
pub(crate) use compiled::first_start;
pub use contents::{Contents, Kernels, size};
pub use place::{Place, Reason};

use std::sync::OnceLock;

/// How every line about kernels begins.
pub(crate) const TOPIC: &str = "GPU kernels: ";

/// The place of this process, once it has turned to a GPU.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) place: Place,
    /// Whether kernels are kept there: it can be written to, and no configuration file says otherwise.
    pub(crate) kept: bool,
    /// Whether none was kept there before.
    pub(crate) first: bool,
}

static PREPARED: OnceLock<Prepared> = OnceLock::new();

/// The place of this process; none as long as it computes on the CPU alone.
pub(crate) fn prepared() -> Option<&'static Prepared> {
    PREPARED.get()
}

/// Chooses the place and tells CubeCL; says once what stands in the way. Must come before the first GPU is used.
#[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "there is no GPU to prepare for"))]
pub(crate) fn prepare() {
    PREPARED.get_or_init(|| {
        let place = Place::find();
        if let Some(ignored) = &place.ignored {
            eprintln!("{TOPIC}a configuration file is left out: {ignored}");
        }
        let first = match Contents::read(&place.file) {
            Ok(contents) => contents.count() == 0,
            Err(error) => {
                let mend = "remove it, or replace it by `loglinear cache --import FILE --force`";
                eprintln!("{TOPIC}{error}; what it lacks is compiled at every start: {mend}");
                false
            }
        };
        let writable = if place.keeps { place.check_writable() } else { Ok(()) };
        if let Err(error) = &writable {
            eprintln!(
                "{TOPIC}not kept, so that every start compiles them anew: {error} (LOGLINEAR_CACHE names another \
                 folder)"
            );
        }
        let kept = place.keeps && writable.is_ok();
        if !compiler::configure(&place, kept) {
            eprintln!("{TOPIC}CubeCL was in use before a device was parsed, and keeps what its own settings say");
        }
        Prepared { place, kept, first }
    });
}
