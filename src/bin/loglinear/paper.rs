//! `loglinear paper`: everything of the paper from recorded results.

use crate::{Failure, Outcome, report};
use clap::{Args, Subcommand};
use loglinear::Error;
use loglinear::paper::{self, Entry};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct PaperCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Draw every figure, with a page that says where each is from.
    Figures(Figures),
}

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear paper figures
  loglinear paper figures --from runs --out my-figures

Full presets are used where their results are, small ones else. What is missing is named with the command \
that makes it.")]
struct Figures {
    /// Folder with sweeps that were collected [default: data/results, or runs if that isn't there].
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Folder for figures and their page.
    #[arg(long, default_value = "figures", value_name = "DIR")]
    out: PathBuf,
}

impl PaperCommand {
    pub fn run(self) -> Outcome {
        let What::Figures(Figures { from, out }) = self.what;
        let found = || ["data/results", "runs"].into_iter().map(PathBuf::from).find(|path| path.is_dir());
        let Some(from) = from.or_else(found) else {
            let expected = "a folder with results (there is neither data/results nor runs here)";
            return Err(Failure::Usage(Error::value("--from", expected, "none")));
        };
        let arguments = format!(" --from {} --out {}", from.display(), out.display());
        let made = paper::figures(&from, &out, &arguments)?;
        for Entry { name, outcome, .. } in &made.entries {
            match outcome {
                paper::Outcome::Drawn(files, _) => {
                    for file in files {
                        report::say(file.display())?;
                    }
                }
                paper::Outcome::Missing(command) => {
                    report::say(format_args!("{name}: not drawn; needs {command}"))?
                }
            }
        }
        for name in &made.removed {
            report::say(format_args!("{name}: removed; it was of the results drawn here before"))?;
        }
        report::say(out.join("README.md").display())?;
        let verdicts = made.claims.paper.column("verdict").map_err(Error::from)?;
        let count = |name: &str| {
            let names = verdicts.str().map_err(Error::from)?;
            Ok::<_, Error>(names.iter().filter(|verdict| *verdict == Some(name)).count())
        };
        let names = ["supported", "not supported", "contradicted", "not tested"];
        let counts = names.map(|name| count(name).map(|count| format!("{count} {name}")));
        let counts = counts.into_iter().collect::<Result<Vec<_>, _>>()?.join(", ");
        report::say(format_args!("claims: {counts}; see {}", Path::new(&out).join("README.md").display()))
    }
}
