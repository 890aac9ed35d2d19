//! What an environment holds: kernels by GPU architecture and version of CubeCL.

use super::database::{Database, Value, log_of};
use crate::{Error, Result};
use cubecl_environment::persistence::Namespace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Kernels of one kind of GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernels {
    /// NVIDIA's name of the architecture: `sm_90`.
    pub architecture: String,
    /// Version of CubeCL that looks for them: another one compiles its own.
    pub cubecl: String,
    /// How many.
    pub count: usize,
}

/// What an environment holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Kernels, by architecture and version.
    pub kernels: Vec<Kernels>,
    /// Other entries: measured choices among kernels, and records of compiling.
    pub others: usize,
}

/// Version of CubeCL in this program.
pub(super) fn cubecl_version() -> String {
    let namespace = Namespace::new("");
    namespace.as_str().split('/').nth(1).unwrap_or_default().to_owned()
}

impl Contents {
    /// Reads an environment's file, with its log. One that isn't there holds nothing.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or is no whole environment.
    pub fn read(file: &Path) -> Result<Self> {
        if !file.exists() {
            return Ok(Self::default());
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        Database::open(file)?.rows("entries", |row| {
            if let Some(Value::Text(namespace)) = row.first() {
                *counts.entry(namespace.clone()).or_default() += 1;
            }
        })?;
        let mut contents = Self::default();
        for (namespace, count) in counts {
            match compiled(&namespace) {
                Some((architecture, cubecl)) => {
                    contents.kernels.push(Kernels { architecture, cubecl, count });
                }
                // What finds a kernel by its source: one for each.
                None if namespace.starts_with("cuda-second-line/") => {}
                None => contents.others += count,
            }
        }
        Ok(contents)
    }

    /// Number of all kernels.
    pub fn count(&self) -> usize {
        self.kernels.iter().map(|kernels| kernels.count).sum()
    }

    /// What a person reads: `826 for sm_90 (CubeCL 0.11.3)`.
    pub fn describe(&self) -> String {
        let one = |kernels: &Kernels| {
            format!("{} for {} (CubeCL {})", kernels.count, kernels.architecture, kernels.cubecl)
        };
        let all: Vec<String> = self.kernels.iter().map(one).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    }
}

/// Architecture and version of CubeCL of `cuda/0.11.3/ptx_sm90-cpp`.
fn compiled(namespace: &str) -> Option<(String, String)> {
    let (version, fingerprint) = namespace.strip_prefix("cuda/")?.split_once('/')?;
    let rest = fingerprint.split_once("sm")?.1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((format!("sm_{digits}"), version.to_owned()))
}

/// Bytes of an environment's file and its log.
pub fn size(file: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in [file.to_owned(), log_of(file)] {
        bytes += match path.metadata() {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
            Err(error) => return Err(Error::io(path)(error)),
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_names_architecture_and_version() {
        let of = |namespace| compiled(namespace);
        assert_eq!(of("cuda/0.11.3/ptx_sm90-cpp"), Some(("sm_90".to_owned(), "0.11.3".to_owned())));
        assert_eq!(of("cuda/0.12.0/ptx_sm120-llvm-8"), Some(("sm_120".to_owned(), "0.12.0".to_owned())));
        assert_eq!(of("autotune/0.11.3/device-0-0-cuda/matmul"), None);
        assert_eq!(of("cuda-second-line/0.11.3/ptx_sm90-cpp"), None);
        assert_eq!(cubecl_version().split('.').count(), 3);
    }
}
