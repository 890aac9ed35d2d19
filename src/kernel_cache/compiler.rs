//! What CubeCL is told and asked: its settings, its records of compiling, its database.

use super::{Compiled, Place};
use crate::{Error, Result};
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
use cubecl_environment::bytes::Bytes;
use cubecl_environment::persistence::{Access, CacheConfig, Database, Insertion, Origin};
use cubecl_environment::records::{self, Record, RecordLevel, Records, SessionId};
use serde::Deserialize;
use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Sessions that compiled something, of which the environment keeps records: a record is small, but they add up.
const SESSIONS: usize = 32;

/// What a reader's configuration doesn't say: few variants are tried, and what is compiled is recorded, to be counted.
const DEFAULTS: [(&[&str], &str); 2] =
    [(&["autotune", "level"], "minimal"), (&["environment", "records", "level"], "basic")];

/// Checks that CubeCL can use what the configuration file says.
pub(super) fn check(place: &Place) -> std::result::Result<(), String> {
    configuration(place, place.keeps).map(|_| ())
}

/// Sets CubeCL up. Whether it listened: not if it is in use already.
pub(super) fn configure(place: &Place, kept: bool) -> bool {
    let Ok(configuration) = configuration(place, kept) else { return false };
    let set = CubeClRuntimeConfig::try_set(configuration.override_from_env());
    if set && kept {
        records::label(label());
        if place.file.exists() {
            forget();
        }
    }
    set
}

fn configuration(place: &Place, kept: bool) -> std::result::Result<CubeClRuntimeConfig, String> {
    let mut table = place.configuration.clone();
    for (path, value) in DEFAULTS {
        let (field, sections) = path.split_last().expect("a path names a field");
        let section = sections.iter().try_fold(&mut table, |table, section| {
            table.entry(*section).or_insert_with(|| toml::Table::new().into()).as_table_mut()
        });
        // What should be a section but isn't is an error below.
        if let Some(section) = section {
            section.entry(*field).or_insert_with(|| value.into());
        }
    }
    let mut configuration: CubeClRuntimeConfig =
        toml::Value::Table(table).try_into().map_err(|error: toml::de::Error| error.to_string())?;
    configuration.compilation.cache = kept;
    if !kept {
        // They would be written where kernels can't be.
        configuration.environment.records.level = RecordLevel::Off;
    }
    configuration.environment.path = CacheConfig::Directory(place.folder().to_owned());
    configuration.environment.name =
        place.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(configuration)
}

/// What this process's records are found by: process numbers alone come again.
fn label() -> &'static str {
    static LABEL: OnceLock<String> = OnceLock::new();
    LABEL.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("loglinear {} {} {}", env!("CARGO_PKG_VERSION"), std::process::id(), now.as_nanos())
    })
}

/// CubeCL's record of a kernel, as far as it is counted.
#[derive(Deserialize)]
struct Compilation {
    outcome: Outcome,
    duration: Duration,
}

#[derive(Deserialize)]
enum Outcome {
    Compiled,
    Loaded,
    /// The same source under another build of the program.
    Rekeyed,
}

impl Record for Compilation {
    const KIND: &'static str = "compilation";
}

/// What this process compiled so far, by CubeCL's records. It keeps those of a process that compiled nothing to itself.
pub(super) fn compiled() -> Option<Compiled> {
    let database = Database::open_active()?;
    let records = Records::new(&database);
    let ours: HashSet<SessionId> = records
        .sessions()
        .into_iter()
        .filter(|session| session.label.as_deref() == Some(label()))
        .map(|session| session.id)
        .collect();
    let mut compiled = Compiled::default();
    if ours.is_empty() {
        return Some(compiled);
    }
    for record in records.read::<Compilation>() {
        if !ours.contains(&record.stamp.session) {
            continue;
        }
        let seconds = record.record.duration.as_secs_f64();
        match record.record.outcome {
            Outcome::Compiled => {
                compiled.kernels += 1;
                compiled.seconds += seconds;
            }
            Outcome::Rekeyed => {
                compiled.taken_over += 1;
                compiled.taken_over_seconds += seconds;
            }
            Outcome::Loaded => {}
        }
    }
    Some(compiled)
}

/// Drops the records of earlier processes if there are many, in a few statements: CubeCL's own pruning takes one for
/// each record.
fn forget() {
    let Some(database) = Database::open_active() else { return };
    if Records::new(&database).sessions().len() > SESSIONS {
        for namespace in database.namespaces().iter().filter(|name| name.starts_with(records::ROOT)) {
            database.purge(namespace);
        }
    }
}

/// Adds to the environment at `to` what only the one at `from` holds, and returns how many kernels that were. Kernels
/// are told apart by their source, through the table that finds them by it: under their own keys those of another
/// build of the program would be there twice.
pub(super) fn merge(from: &Path, to: &Path) -> Result<usize> {
    let open = |path: &Path, access| {
        Database::open_at(path, access)
            .map_err(|error| Error::format(path, format!("can't be opened: {error}")))
    };
    let source = open(from, Access::ReadWrite)?;
    let target = open(to, Access::ReadWrite)?;
    let mut added = 0;
    for namespace in source.namespaces() {
        if namespace.starts_with(records::ROOT) || namespace.starts_with("cuda/") {
            continue;
        }
        let kernels = namespace.strip_prefix("cuda-second-line/").map(|rest| format!("cuda/{rest}"));
        // All before the first insertion: the two may not be asked for anything within the other's scan.
        let mut entries = Vec::new();
        source.scan(&namespace, &mut |key, value| entries.push((key.to_vec(), value.to_vec())));
        match kernels {
            Some(kernels) => {
                for (hash, key) in entries {
                    added += usize::from(add_kernel(&source, &target, (&namespace, &kernels), &hash, &key)?);
                }
            }
            None => {
                let mut entries = entries
                    .into_iter()
                    .map(|(key, value)| (Bytes::from_bytes_vec(key), Bytes::from_bytes_vec(value)));
                target.insert_many(&namespace, &mut entries, Origin::Imported);
            }
        }
    }
    Ok(added)
}

/// Adds a kernel unless one of the same source is there: itself first, then what finds it. Whether it was added.
fn add_kernel(
    source: &Database,
    target: &Database,
    (sources, kernels): (&str, &str),
    hash: &[u8],
    key: &[u8],
) -> Result<bool> {
    if target.get(sources, hash).is_some() {
        return Ok(false);
    }
    let Some(kernel) = source.get(kernels, key) else { return Ok(false) };
    for (namespace, key, value) in [(kernels, key, &kernel[..]), (sources, hash, key)] {
        if let Insertion::Failed(message) = target.insert(namespace, key, value, Origin::Imported) {
            return Err(Error::format(namespace, format!("a kernel can't be added: {message}")));
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cubecl_environment::records::RecordEffect;

    /// As CubeCL writes it, shortened.
    #[derive(serde::Serialize)]
    struct Written {
        kernel: &'static str,
        outcome: &'static str,
        duration: Duration,
        source: Option<String>,
    }

    impl Record for Written {
        const KIND: &'static str = "compilation";
    }

    /// One test: CubeCL's settings are of the process.
    #[test]
    fn cubecl_is_told_the_place_and_asked_what_it_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[autotune]\nlevel = 'full'\n[profiling.logger]\nlevel = 'full'\n";
        let configuration = text.parse().unwrap();
        let file = folder.path().join("kernels/loglinear.db");
        let place = Place { file: file.clone(), configuration, ..Place::find() };
        assert!(check(&place).is_ok());
        let wrong = Place { configuration: "[autotune]\nlevel = 'much'".parse().unwrap(), ..place.clone() };
        assert!(check(&wrong).unwrap_err().contains("much"));

        assert!(configure(&place, true) && !configure(&place, true), "CubeCL listens once");
        let set = CubeClRuntimeConfig::get();
        assert!(set.compilation.cache);
        // What the reader's file says stays; what it doesn't is ours.
        let value = serde_json::to_value(&*set).unwrap();
        assert_eq!(value["autotune"]["level"].as_str(), Some("full"));
        assert_eq!(value["profiling"]["logger"]["level"].as_str(), Some("full"));
        assert_eq!(value["environment"]["records"]["level"].as_str(), Some("basic"));
        assert_eq!(cubecl_environment::environment::path(), file);

        assert_eq!(compiled(), Some(Compiled::default()));
        let duration = Duration::from_millis(1500);
        for outcome in ["Compiled", "Loaded", "Rekeyed", "Compiled"] {
            let record = Written { kernel: "sum", outcome, duration, source: None };
            records::write(RecordEffect::Changed, &record).unwrap();
        }
        let found = compiled().unwrap();
        assert_eq!((found.kernels, found.taken_over), (2, 1));
        assert!((found.seconds - 3.0).abs() < 1e-9 && (found.taken_over_seconds - 1.5).abs() < 1e-9);
        assert_eq!(super::super::Contents::read(&file).unwrap().count(), 0);
    }
}
