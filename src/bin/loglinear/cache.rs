//! `loglinear cache`: where compiled GPU kernels are kept, and carrying them to another machine.

use crate::{Failure, Outcome, report};
use clap::Args;
use loglinear::kernel_cache::{Contents, Existing, Place, export, import, size};
use loglinear::{Error, device};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear cache                              (where kernels are kept, why there, and how many)
  loglinear cache --export kernels.zst         (on a machine that has run on its GPU)
  loglinear cache --import kernels.zst         (on the next one, before its first start)
  loglinear cache --import kernels.zst --merge (keep what is there, add what is missing)
  LOGLINEAR_CACHE=/scratch/me loglinear train --device cuda:0   (kernels below /scratch/me)

Kernels are of use to GPUs of the same architecture and builds with the same CubeCL; a build that differs otherwise
compiles only what it changed.")]
pub struct Cache {
    /// Pack the kernels into a file.
    #[arg(long, value_name = "FILE", group = "file")]
    export: Option<PathBuf>,
    /// Unpack the kernels of such a file.
    #[arg(long, value_name = "FILE", group = "file")]
    import: Option<PathBuf>,
    /// With --import: keep the kernels that are there, add those that are missing (needs the `cuda` feature).
    #[arg(long, requires = "import", conflicts_with = "force")]
    merge: bool,
    /// Replace the file, or the kernels that are there, also by those for another GPU. No other program may use them.
    #[arg(long, requires = "file")]
    force: bool,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

impl Cache {
    pub fn run(self) -> Outcome {
        let place = Place::find();
        match (&self.export, &self.import) {
            (Some(to), _) => self.export(&place, to),
            (None, Some(from)) => self.import(&place, from),
            (None, None) => self.show(&place),
        }
    }

    fn show(&self, place: &Place) -> Outcome {
        let bytes = size(&place.file)?;
        let contents = Contents::read(&place.file)?;
        if self.json {
            return report::say(serde_json::json!({
                "place": place.file, "because": place.reason.to_string(), "keeps": place.keeps,
                "ignored": place.ignored, "bytes": bytes, "kernels": contents.kernels, "others": contents.others,
            }));
        }
        report::say(format_args!("place      {}", place.file.display()))?;
        report::say(format_args!("because    {}", place.reason))?;
        if let Some(file) = &place.configured {
            report::say(format_args!("settings   {} comes before the program's", file.display()))?;
        }
        if let Some(ignored) = &place.ignored {
            report::say(format_args!("left out   {ignored}"))?;
        }
        if !place.keeps {
            report::say("keeps      nothing: `compilation.cache` is false there")?;
        }
        report::say(format_args!("size       {}", megabytes(bytes)))?;
        report::say(format_args!("kernels    {}", contents.describe()))?;
        if contents.others > 0 {
            report::say(format_args!("besides    {} measured choices and records", contents.others))?;
        }
        report::say(
            "carry      loglinear cache --export kernels.zst, there loglinear cache --import kernels.zst",
        )
    }

    fn export(&self, place: &Place, to: &Path) -> Outcome {
        let manifest = export(&place.file, to, self.force)?;
        let bytes = to.metadata().map_err(Error::io(to))?.len();
        if self.json {
            let value = serde_json::json!({ "file": to, "bytes": bytes, "kernels": manifest.kernels });
            return report::say(value);
        }
        let (file, all) = (to.display(), manifest.describe());
        report::say(format_args!("{file}: {}; kernels: {all}", megabytes(bytes)))
    }

    fn import(&self, place: &Place, from: &Path) -> Outcome {
        let existing = match (self.merge, self.force) {
            (true, _) => Existing::Merge,
            (_, true) => Existing::Replace,
            _ => Existing::Refuse,
        };
        if self.merge && !cfg!(feature = "cuda") {
            let expected = "used with a build with the `cuda` feature";
            return Err(Failure::Usage(Error::value("--merge", expected, "a build without it")));
        }
        let here = if self.force { Vec::new() } else { device::architectures() };
        let (manifest, added) = import(from, &place.file, existing, &here)?;
        if self.json {
            let kernels = manifest.kernels;
            return report::say(
                serde_json::json!({ "place": place.file, "kernels": kernels, "added": added }),
            );
        }
        let (file, all) = (place.file.display(), manifest.describe());
        match added {
            None => report::say(format_args!("{file}: {all} (from loglinear {})", manifest.loglinear)),
            Some(added) => report::say(format_args!("{file}: {added} added, of {all} in the file")),
        }
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
