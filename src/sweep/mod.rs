//! Sweeps: many runs from one file, trained in cohorts, and what they decide.
//!
//! A [`Sweep`] says which runs there are. [`run`] trains them into a folder of run folders, those of equal
//! shapes together, as many as memory holds; a [`SweepFolder`] says how far it is. What came out is one
//! frame ([`crate::frame::collect`]), of which [`crate::frame`] has statistics and the verdicts on the
//! sweep's claims.

mod claim;
mod collect;
mod definition;
mod execute;
mod expand;
mod folder;
mod plan;
mod point;
mod preset;
mod sitting;
mod verdict;

pub use claim::{Claim, Range, Statistic};
pub use definition::Sweep;
pub use execute::{SweepOptions, SweepOutcome, run};
pub use expand::SweepRun;
pub use folder::{RunState, SweepFolder};
pub use plan::{Plan, PlannedCohort, memory};
pub use preset::{claims_elsewhere, preset, preset_names};
pub use sitting::Sitting;
pub(crate) use sitting::{read_sittings, rfc3339};
pub(crate) use verdict::counted;
pub use verdict::{Verdict, claims_table};
