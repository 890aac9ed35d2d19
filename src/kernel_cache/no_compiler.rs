//! Builds without the `cuda` feature have no CubeCL to talk to.

use super::{Compiled, Place};
use crate::{Error, Result};
use std::path::Path;

pub(super) fn check(_: &Place) -> std::result::Result<(), String> {
    Ok(())
}

pub(super) fn configure(_: &Place, _: bool) -> bool {
    true
}

pub(super) fn compiled() -> Option<Compiled> {
    None
}

/// Adding to an environment takes CubeCL's database engine.
pub(super) fn merge(_: &Path, _: &Path) -> Result<usize> {
    Err(Error::value("--merge", "used with a build with the `cuda` feature", "a build without it"))
}
