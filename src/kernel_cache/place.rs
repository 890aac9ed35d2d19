//! Where compiled kernels are kept, and why there: one choice for every program, test and notebook.

use crate::Error;
use crate::file::cache_folder_by;
use cubecl_environment::environment::file_name;
use cubecl_environment::persistence::CacheConfig;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::Table;

/// Files in which CubeCL looks for settings in the working folder and those above it, the first one wins: whole, or
/// one section of Burn's.
const FILES: [(&str, Option<&str>); 4] = [
    ("cubecl.toml", None),
    ("CubeCL.toml", None),
    ("burn.toml", Some("cubecl")),
    ("Burn.toml", Some("cubecl")),
];

/// Name of our environment among those that a folder may hold.
const NAME: &str = "loglinear";

/// Where compiled kernels are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// CubeCL's environment: one database file, beside which its log of recent writes may lie.
    pub file: PathBuf,
    /// Why there.
    pub reason: Reason,
    /// Whether kernels are kept at all: a configuration file may say otherwise.
    pub keeps: bool,
    /// A configuration file that couldn't be used, and why.
    pub ignored: Option<String>,
    /// The reader's configuration file.
    pub configured: Option<PathBuf>,
    /// What it says; empty without one.
    pub(super) configuration: Table,
}

/// Why kernels are kept in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// This variable, or the home folder.
    Named(&'static str),
    /// There is no home folder: the system's temporary one.
    Homeless,
    /// A configuration file of CubeCL's names a folder.
    Configured(PathBuf),
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named("LOGLINEAR_CACHE") => formatter.write_str("LOGLINEAR_CACHE is set"),
            Self::Named("XDG_CACHE_HOME") => {
                formatter.write_str("XDG_CACHE_HOME is set (LOGLINEAR_CACHE would come first)")
            }
            Self::Named(_) => formatter.write_str("the user's cache folder (LOGLINEAR_CACHE names another)"),
            Self::Homeless => formatter.write_str("there is no home folder, and LOGLINEAR_CACHE is not set"),
            Self::Configured(file) => write!(formatter, "{} says so", file.display()),
        }
    }
}

/// What the choice depends on.
pub(super) struct Surroundings<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<OsString>,
    pub(super) home: Option<PathBuf>,
    pub(super) working: Option<PathBuf>,
}

impl Place {
    /// The place of a program that starts here and now.
    pub fn find() -> Self {
        let around = Surroundings {
            variable: &|name| std::env::var_os(name),
            home: std::env::home_dir(),
            working: std::env::current_dir().ok(),
        };
        let place = Self::choose(&around);
        match (super::compiler::check(&place), &place.configured) {
            (Err(error), Some(file)) => Self::without(&around, file, &error),
            _ => place,
        }
    }

    /// The folder of the environment.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("."))
    }

    /// The environment in `kernels` below this crate's cache folder, or the one that the reader's own configuration
    /// file names. What that file doesn't say is ours.
    pub(super) fn choose(around: &Surroundings<'_>) -> Self {
        let (found, ignored) = around.working.as_deref().map_or((None, None), configuration);
        let (file, table) = found.map_or_else(|| (None, Table::new()), |(file, table)| (Some(file), table));
        let (root, reason) = match cache_folder_by(around.variable, around.home.clone()) {
            Some((folder, named)) => (folder, Reason::Named(named)),
            None => (std::env::temp_dir().join("loglinear"), Reason::Homeless),
        };
        let mut place = Self {
            file: PathBuf::new(),
            reason,
            keeps: lookup(&table, "compilation", "cache").and_then(toml::Value::as_bool).unwrap_or(true),
            ignored,
            configured: file.clone(),
            configuration: Table::new(),
        };
        let mut folder = root.join("kernels");
        let path = lookup(&table, "environment", "path").map(|path| path.clone().try_into::<CacheConfig>());
        match (file, path) {
            (Some(file), Some(Ok(path))) => (folder, place.reason) = (path.root(), Reason::Configured(file)),
            // CubeCL leaves a file out that has one wrong field; so do we, and say it.
            (Some(file), Some(Err(error))) => return Self::without(around, &file, &error),
            _ => {}
        }
        let own = lookup(&table, "environment", "name").and_then(toml::Value::as_str).map(str::to_owned);
        let named = (around.variable)("CUBECL_ENVIRONMENT").and_then(|name| name.into_string().ok());
        let name = named.or(own).unwrap_or_else(|| NAME.to_owned());
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Self { file: folder.join(file_name(&name)), configuration: table, ..place }
    }

    /// Checks that files can be made in the folder, and that the environment can be written to if there is one.
    pub(super) fn check_writable(&self) -> crate::Result<()> {
        let folder = self.folder();
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let trial = folder.join(format!(".writable-{}", std::process::id()));
        std::fs::write(&trial, "").map_err(Error::io(folder))?;
        std::fs::remove_file(&trial).map_err(Error::io(&trial))?;
        match std::fs::File::options().write(true).open(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&self.file)(error)),
            _ => Ok(()),
        }
    }

    /// The place if a configuration file is not looked at, because of this error.
    fn without(around: &Surroundings<'_>, file: &Path, error: &dyn fmt::Display) -> Self {
        let error = error.to_string();
        let ignored = Some(format!("{}: {}", file.display(), error.trim_end().replace('\n', " ")));
        let alone = Surroundings { working: None, home: around.home.clone(), ..*around };
        Self { ignored, ..Self::choose(&alone) }
    }
}

/// A field of a section.
fn lookup<'a>(table: &'a Table, section: &str, field: &str) -> Option<&'a toml::Value> {
    table.get(section)?.get(field)
}

/// The configuration file that CubeCL would read if it started in a folder, and what it says; and the last one on
/// the way that is no TOML.
fn configuration(working: &Path) -> (Option<(PathBuf, Table)>, Option<String>) {
    let mut ignored = None;
    for folder in working.ancestors() {
        for (name, section) in FILES {
            let path = folder.join(name);
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let table = match (text.parse::<Table>(), section) {
                (Ok(table), None) => Some(table),
                (Ok(table), Some(section)) => table.get(section).and_then(|value| value.as_table().cloned()),
                (Err(error), _) => {
                    ignored = Some(format!("{}: {}", path.display(), error.message()));
                    None
                }
            };
            if let Some(table) = table {
                return (Some((path, table)), ignored);
            }
        }
    }
    (None, ignored)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place under variables `NAME=value`, separated by blanks.
    fn choose(variables: &str, working: &Path) -> Place {
        let variable = |name: &str| {
            let mut pairs = variables.split_whitespace().filter_map(|pair| pair.split_once('='));
            pairs.find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        Place::choose(&Surroundings {
            variable: &variable,
            home: Some("/users/reader".into()),
            working: Some(working.to_owned()),
        })
    }

    #[test]
    fn a_variable_comes_before_the_users_cache_folder() {
        let folder = tempfile::tempdir().unwrap();
        let cases = [
            ("", "/users/reader/.cache/loglinear/kernels/loglinear.db", "user's cache folder"),
            ("XDG_CACHE_HOME=/x", "/x/loglinear/kernels/loglinear.db", "XDG_CACHE_HOME is set"),
            (
                "XDG_CACHE_HOME=x",
                "/users/reader/.cache/loglinear/kernels/loglinear.db",
                "user's cache folder",
            ),
            ("LOGLINEAR_CACHE=/y XDG_CACHE_HOME=/x", "/y/kernels/loglinear.db", "LOGLINEAR_CACHE is set"),
            ("LOGLINEAR_CACHE=/y CUBECL_ENVIRONMENT=a/b", "/y/kernels/a_b.db", "LOGLINEAR_CACHE is set"),
        ];
        for (variables, file, reason) in cases {
            let place = choose(variables, folder.path());
            assert_eq!(place.file, Path::new(file));
            assert!(place.reason.to_string().contains(reason), "{}", place.reason);
            assert!(place.keeps && place.ignored.is_none() && place.configuration.is_empty());
        }
        let nowhere = Surroundings { variable: &|_| None, home: None, working: None };
        assert_eq!(Place::choose(&nowhere).reason, Reason::Homeless);
    }

    #[test]
    fn a_folder_that_can_not_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &Path| choose(&format!("LOGLINEAR_CACHE={}", path.display()), folder.path());
        let place = at(&folder.path().join("new"));
        place.check_writable().unwrap();
        assert_eq!(std::fs::read_dir(place.folder()).unwrap().count(), 0, "the trial is gone");
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let message = at(&file).check_writable().unwrap_err().to_string();
        assert!(message.contains("file/kernels"), "{message}");
    }

    #[test]
    fn a_readers_configuration_wins_in_what_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        let at = folder.path().join("cubecl.toml");
        let own = |text: &str| {
            std::fs::write(&at, text).unwrap();
            choose("LOGLINEAR_CACHE=/y", &below)
        };
        let place = own("[environment]\nname = 'h200'\npath = { directory = '/z' }\n");
        assert_eq!(
            (place.file.as_path(), &place.reason),
            (Path::new("/z/h200.db"), &Reason::Configured(at.clone()))
        );
        // A file about something else leaves the place to us.
        let place = own("[profiling.logger]\nlevel = 'full'\n");
        assert_eq!((place.file.as_path(), place.keeps), (Path::new("/y/kernels/loglinear.db"), true));
        assert!(place.configuration.contains_key("profiling"));
        assert!(!own("[compilation]\ncache = false\n").keeps);
        for wrong in ["[environment", "[environment]\npath = 3\n"] {
            let place = own(wrong);
            assert_eq!(place.file, Path::new("/y/kernels/loglinear.db"));
            assert!(place.ignored.unwrap().contains("cubecl.toml"));
        }
        // The one in the working folder comes first; Burn's file has a section for it.
        std::fs::write(below.join("burn.toml"), "[cubecl.environment]\npath = { directory = '/w' }\n")
            .unwrap();
        assert_eq!(own("").file, Path::new("/w/loglinear.db"));
    }
}
