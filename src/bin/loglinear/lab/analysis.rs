//! What the kernel's rust-analyzer reads to find out types of variables.
//!
//! Given the crate itself, it loads the source of some 500 packages at every start: 41 s to a first result.
//! Given the few below, whose types a reader's variables have, it is 6 to 7 s, and later cells take half
//! as long (CONTRIBUTING.md has the measurements). Cells are compiled against the dynamic library, so nothing here is
//! ever built: each package is a manifest that points at the source cargo has unpacked, with the
//! features of the real build.

use super::place::{Lab, metadata, write};
use loglinear::{Error, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Packages whose types appear in variables, with what their signatures lean on.
const PACKAGES: [&str; 21] = [
    "loglinear",
    "burn",
    "burn-backend",
    "burn-core",
    "burn-dispatch",
    "burn-std",
    "burn-tensor",
    "plotters",
    "plotters-backend",
    "polars",
    "polars-arrow",
    "polars-core",
    "polars-dtype",
    "polars-error",
    "polars-io",
    "polars-lazy",
    "polars-ops",
    "polars-plan",
    "polars-schema",
    "polars-time",
    "polars-utils",
];

/// The configuration flag under which rust-analyzer, and nothing else, sees these packages.
pub const FLAG: &str = "loglinear_analysis";

/// Name by which cells' crate `loglinear` knows the dynamic library.
pub const LIBRARY: &str = "loglinear_library";

/// The crate `loglinear` of cells: the dynamic library for the compiler, source for rust-analyzer.
pub fn facade(lab: &Lab) -> PathBuf {
    lab.root.join("facade")
}

/// Writes the manifests and the crate that cells depend on.
pub fn generate(lab: &Lab) -> Result<()> {
    let metadata = metadata(&lab.checkout, lab.features())?;
    let folder = lab.root.join("analysis");
    let packages: HashMap<&str, Package> = list(&metadata["packages"])
        .filter_map(|package| Some((package["id"].as_str()?, Package::read(package)?)))
        .collect();
    let mut written = 0;
    for node in list(&metadata["resolve"]["nodes"]) {
        if let Some(package) = node["id"].as_str().and_then(|id| packages.get(id)) {
            let manifest = folder.join(package.name).join("Cargo.toml");
            write(&manifest, &package.manifest(node, &packages)?)?;
            written += 1;
        }
    }
    if written != PACKAGES.len() {
        let expected = format!("{} packages ({})", PACKAGES.len(), PACKAGES.join(", "));
        return Err(Error::value("cargo metadata", expected, format!("{written} of them")));
    }
    write_facade(&facade(lab), &folder)
}

fn write_facade(facade: &Path, packages: &Path) -> Result<()> {
    let source = toml::Value::String(packages.join("loglinear").display().to_string());
    let version = env!("CARGO_PKG_VERSION");
    write(
        &facade.join("Cargo.toml"),
        &format!(
            "[package]\nname = \"loglinear\"\nversion = \"{version}\"\nedition = \"2024\"\n\n\
             [lib]\npath = \"lib.rs\"\n\n\
             [target.'cfg({FLAG})'.dependencies]\n\
             {LIBRARY} = {{ path = {source}, package = \"loglinear-analysis\" }}\n"
        ),
    )?;
    write(&facade.join("lib.rs"), &format!("pub use {LIBRARY}::*;\n"))
}

struct Package<'a> {
    name: &'a str,
    version: &'a str,
    edition: &'a str,
    library: &'a str,
    source: &'a str,
}

impl<'a> Package<'a> {
    /// A package that is on our list and has a library.
    fn read(package: &'a Value) -> Option<Self> {
        let name = package["name"].as_str().filter(|name| PACKAGES.contains(name))?;
        let target = list(&package["targets"])
            .find(|target| list(&target["kind"]).any(|kind| kind == "lib" || kind == "dylib"))?;
        Some(Self {
            name,
            version: package["version"].as_str()?,
            edition: package["edition"].as_str()?,
            library: target["name"].as_str()?,
            source: target["src_path"].as_str()?,
        })
    }

    fn manifest(&self, node: &Value, packages: &HashMap<&str, Self>) -> Result<String> {
        let Self { name, version, edition, library, source } = self;
        let source = toml::Value::String((*source).to_owned());
        // Another package name, so that no tool takes it for the published one.
        let mut text = format!(
            "[package]\nname = \"{name}-analysis\"\nversion = \"{version}\"\nedition = \"{edition}\"\n\n\
             [lib]\nname = \"{library}\"\npath = {source}\n\n[features]\n"
        );
        let features: Vec<&str> = list(&node["features"])
            .filter_map(Value::as_str)
            .filter(|&feature| feature != "default")
            .collect();
        let fail = |_| Error::format("cargo metadata", "can't be written as a manifest");
        writeln!(text, "default = {features:?}").map_err(fail)?;
        for feature in &features {
            writeln!(text, "{feature:?} = []").map_err(fail)?;
        }
        text.push_str("\n[dependencies]\n");
        for dependency in list(&node["deps"]) {
            let normal = list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
            let package = dependency["pkg"].as_str().and_then(|id| packages.get(id));
            if let (true, Some(package), Some(alias)) = (normal, package, dependency["name"].as_str()) {
                let name = package.name;
                writeln!(text, "{alias} = {{ path = \"../{name}\", package = \"{name}-analysis\" }}")
                    .map_err(fail)?;
            }
        }
        Ok(text)
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
