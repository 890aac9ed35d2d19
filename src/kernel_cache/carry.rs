//! Carrying an environment to another machine: one compressed file with a checksum of everything in it, and what it
//! is for.
//!
//! ```text
//! LLKERNELS 1            in a zstd frame, as all that follows
//! {"loglinear": …}       the manifest, JSON on a line
//! …                      the files it names, one after another
//! ```

use super::contents::{Contents, Kernels, cubecl_version};
use super::database::{log_of, with_ending};
use crate::file::{hex, remove};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &str = "LLKERNELS 1\n";

/// Kernels are alike and large, so the compressor looks back as far as any decompressor goes by default: 2²⁷ bytes.
/// Higher levels than this one save little and take minutes.
const WINDOW: u32 = 27;
const LEVEL: i32 = 9;

/// What a carried environment is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this crate that wrote it.
    pub loglinear: String,
    /// Kernels in it.
    pub kernels: Vec<Kernels>,
    files: Vec<Packed>,
}

/// A file in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Packed {
    /// Whether it is the database's log.
    log: bool,
    bytes: u64,
    sha256: String,
}

/// What to do with kernels that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave them, and refuse.
    Refuse,
    /// Keep them, and add what isn't there.
    Merge,
    /// Replace them.
    Replace,
}

/// Packs an environment into a file.
///
/// # Errors
///
/// If the environment holds no kernels or changes meanwhile, the file exists and `overwrite` isn't given, or it
/// can't be written; nothing is left of it then.
pub fn export(environment: &Path, to: &Path, overwrite: bool) -> Result<Manifest> {
    let contents = Contents::read(environment)?;
    if contents.count() == 0 {
        let message = "expected compiled kernels to export, found none: a first run on a GPU makes them";
        return Err(Error::format(environment, message));
    }
    if to.exists() && !overwrite {
        return Err(Error::value("--export", "a file that doesn't exist yet, or --force", to.display()));
    }
    let mut files = Vec::new();
    for (path, log) in [(environment.to_owned(), false), (log_of(environment), true)] {
        if path.exists() {
            let (bytes, sha256) = copy(&mut open(&path)?, &mut io::sink()).map_err(Error::io(&path))?;
            files.push(Packed { log, bytes, sha256 });
        }
    }
    let manifest =
        Manifest { loglinear: env!("CARGO_PKG_VERSION").to_owned(), kernels: contents.kernels, files };
    let temporary = Temporary(with_ending(to, &format!(".{}.tmp", std::process::id())));
    pack(environment, &temporary.0, &manifest)?;
    std::fs::rename(&temporary.0, to).map_err(Error::io(to))?;
    Ok(manifest)
}

fn pack(environment: &Path, to: &Path, manifest: &Manifest) -> Result<()> {
    let file = File::create(to).map_err(Error::io(to))?;
    let start = || {
        let mut out = zstd::Encoder::new(file, LEVEL)?;
        out.include_checksum(true)?;
        out.long_distance_matching(true)?;
        out.window_log(WINDOW)?;
        writeln!(out, "{MAGIC}{}", serde_json::to_string(manifest)?)?;
        Ok(out)
    };
    let mut out = start().map_err(Error::io(to))?;
    for packed in &manifest.files {
        let path = if packed.log { log_of(environment) } else { environment.to_owned() };
        let found = copy(&mut open(&path)?, &mut out).map_err(Error::io(to))?;
        // Both passes saw the same bytes, so nothing wrote between the first file's first and the last one's second.
        if found != (packed.bytes, packed.sha256.clone()) {
            let message = "changed while it was read: end programs that compute on the GPU, and export again";
            return Err(Error::format(path, message));
        }
    }
    out.finish().and_then(|file| file.sync_all()).map_err(Error::io(to))
}

/// Unpacks a carried environment to its place; with [`Existing::Merge`] returns how many kernels were added.
/// `architectures` are those of the GPUs here: if there are any, the file must have kernels for one of them.
///
/// # Errors
///
/// If the file is torn, is something else, or is for another version of CubeCL or other GPUs; if there are kernels
/// already and `existing` refuses. What is there stays as it was then.
pub fn import(
    from: &Path,
    environment: &Path,
    existing: Existing,
    architectures: &[String],
) -> Result<(Manifest, Option<usize>)> {
    let wrong = |message: String| Error::format(from, message);
    let mut reader = zstd::Decoder::new(open(from)?).map_err(Error::io(from))?;
    reader.window_log_max(WINDOW).map_err(Error::io(from))?;
    let mut reader = BufReader::new(reader);
    let manifest = read_manifest(&mut reader, from)?;
    manifest.check(architectures).map_err(wrong)?;
    if existing == Existing::Refuse {
        let there = Contents::read(environment)?;
        if there.count() > 0 {
            let way = "add what is missing with --merge, or replace all with --force";
            let message = format!("expected no kernels yet, found {}: {way}", there.describe());
            return Err(Error::format(environment, message));
        }
    }
    let folder = environment.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    let unpacked = Temporary(folder.join(format!(".import-{}.db", std::process::id())));
    for packed in &manifest.files {
        let path = if packed.log { log_of(&unpacked.0) } else { unpacked.0.clone() };
        let mut file = File::create(&path).map_err(Error::io(&path))?;
        let found = copy_into(&mut reader.by_ref().take(packed.bytes), &mut file, from, &path)?;
        if found != (packed.bytes, packed.sha256.clone()) {
            let found = found.0;
            return Err(wrong(format!(
                "is torn: expected {} bytes of a checksum, found {found}",
                packed.bytes
            )));
        }
        file.sync_all().map_err(Error::io(&path))?;
    }
    if copy_into(&mut reader, &mut io::sink(), from, from)?.0 > 0 {
        return Err(wrong("has more in it than its manifest says".to_owned()));
    }
    // What the manifest promises is there, and readable.
    if Contents::read(&unpacked.0)?.kernels != manifest.kernels {
        return Err(wrong("holds other kernels than its manifest says".to_owned()));
    }
    if existing == Existing::Merge && environment.exists() {
        let added = super::compiler::merge(&unpacked.0, environment)?;
        return Ok((manifest, Some(added)));
    }
    install(&unpacked.0, environment)?;
    Ok((manifest, None))
}

fn read_manifest(reader: &mut impl BufRead, from: &Path) -> Result<Manifest> {
    const LONGEST: u64 = 1 << 16;
    let mut start = Vec::new();
    let mut read = || {
        reader.take(MAGIC.len() as u64).read_to_end(&mut start)?;
        let mut line = Vec::new();
        reader.take(LONGEST).read_until(b'\n', &mut line)?;
        io::Result::Ok(line)
    };
    let read = read();
    let foreign = |found: String| {
        let expected = "expected a file that `loglinear cache --export` wrote";
        Error::format(from, format!("{expected}, found {found}"))
    };
    let ours = start == MAGIC.as_bytes();
    let line = match read {
        Ok(line) if ours => line,
        Ok(_) => return Err(foreign("something else".to_owned())),
        Err(error) if ours || error.kind() == io::ErrorKind::UnexpectedEof => return Err(torn(from, &error)),
        Err(error) => return Err(foreign(error.to_string())),
    };
    serde_json::from_slice(&line).map_err(|error| foreign(format!("another manifest ({error})")))
}

impl Manifest {
    /// Checks that it is of use here.
    fn check(&self, architectures: &[String]) -> std::result::Result<(), String> {
        let version = cubecl_version();
        if self.kernels.iter().all(|kernels| kernels.cubecl != version) {
            let all: Vec<&str> = self.kernels.iter().map(|kernels| kernels.cubecl.as_str()).collect();
            return Err(format!("expected kernels of CubeCL {version}, found those of {}", all.join(", ")));
        }
        let fits =
            |kernels: &Kernels| kernels.cubecl == version && architectures.contains(&kernels.architecture);
        if !architectures.is_empty() && !self.kernels.iter().any(fits) {
            let all: Vec<&str> = self.kernels.iter().map(|kernels| kernels.architecture.as_str()).collect();
            return Err(format!(
                "expected kernels for the GPU here ({}), found those for {}",
                architectures.join(", "),
                all.join(", ")
            ));
        }
        match self.files.as_slice() {
            [Packed { log: false, .. }] | [Packed { log: false, .. }, Packed { log: true, .. }] => Ok(()),
            _ => Err("expected a database and perhaps its log, found other files".to_owned()),
        }
    }

    /// What a person reads.
    pub fn describe(&self) -> String {
        Contents { kernels: self.kernels.clone(), others: 0 }.describe()
    }
}

/// Puts an unpacked environment in its place. The old log goes first: it would be read as the new file's.
fn install(unpacked: &Path, environment: &Path) -> Result<()> {
    for path in beside(environment) {
        remove(&path)?;
    }
    std::fs::rename(unpacked, environment).map_err(Error::io(environment))?;
    let log = log_of(environment);
    if log_of(unpacked).exists() {
        std::fs::rename(log_of(unpacked), &log).map_err(Error::io(&log))?;
    }
    Ok(())
}

/// What database engines put beside a file: its log, and indices of it.
fn beside(file: &Path) -> [PathBuf; 3] {
    [log_of(file), with_ending(file, "-shm"), with_ending(file, "-tshm")]
}

/// A file in the making, which is removed unless it was renamed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        for path in std::iter::once(self.0.clone()).chain(beside(&self.0)) {
            // It may be gone; that is no second failure.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(Error::io(path))
}

fn torn(path: &Path, error: &io::Error) -> Error {
    Error::format(path, format!("is torn: {error}"))
}

/// Copies to the end; the number of bytes and their checksum.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<(u64, String)> {
    copy_with(from, to, |error| error, |error| error)
}

/// As [`copy`], with an error that names the one of the two files where it happened.
fn copy_into(
    from: &mut impl Read,
    to: &mut impl Write,
    source: &Path,
    target: &Path,
) -> Result<(u64, String)> {
    copy_with(from, to, |error| torn(source, &error), |error| Error::io(target)(error))
}

fn copy_with<E>(
    from: &mut impl Read,
    to: &mut impl Write,
    read: impl Fn(io::Error) -> E,
    write: impl Fn(io::Error) -> E,
) -> std::result::Result<(u64, String), E> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let count = from.read(&mut buffer).map_err(&read)?;
        if count == 0 {
            return Ok((bytes, hex(&hash.finalize())));
        }
        hash.update(&buffer[..count]);
        to.write_all(&buffer[..count]).map_err(&write)?;
        bytes += count as u64;
    }
}
