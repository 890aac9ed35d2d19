//! `loglinear collect`, `statistics` and `claims`: from run folders to tables.

use crate::{Failure, Outcome, report};
use clap::Args;
use loglinear::frame::{
    self, Described, RunRecord, axis_effects, best_less_last, kind_differences, read_parquet, summaries,
    write_parquet,
};
use loglinear::paper::{self, Results};
use loglinear::polars::prelude::DataFrame;
use loglinear::sweep::SweepFolder;
use loglinear::train::RunFolder;
use loglinear::{Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear collect runs/paper/mqar
  loglinear collect runs/quickstart --out quickstart.parquet")]
pub struct Collect {
    /// Folder of a sweep, or of runs.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// File to write; its name ends in .parquet [default: DIR/collected.parquet].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Collect {
    pub fn run(self) -> Outcome {
        let out = self.out.clone().unwrap_or_else(|| self.folder.join("collected.parquet"));
        if out.extension().is_none_or(|ending| ending != "parquet") {
            let expected = "a file name that ends in .parquet";
            return Err(Failure::Usage(Error::value("--out", expected, out.display())));
        }
        if self.out.is_none() && self.folder.join("sweep.toml").is_file() {
            SweepFolder::open(&self.folder)?.check_collected()?;
        }
        let mut frame = collected(&self.folder)?;
        write_parquet(&mut frame, &out)?;
        report::say(format_args!("{}: {} evaluations", out.display(), frame.height()))
    }
}

/// What is in a sweep's folder, or in any folder of runs.
fn collected(folder: &Path) -> Result<DataFrame> {
    if folder.join("sweep.toml").is_file() {
        return SweepFolder::open(folder)?.collect();
    }
    let runs = RunFolder::find(folder)?;
    let records = runs.iter().map(|run| RunRecord::of(run, Vec::new())).collect::<Result<Vec<_>>>()?;
    let mut known: HashMap<String, &RunRecord> = HashMap::new();
    for record in &records {
        if let Some(twin) = known.insert(record.config.to_toml(), record) {
            let message = format!(
                "{} and {} are the same run: two copies would count as two seeds",
                twin.name, record.name
            );
            return Err(Error::run(folder, message));
        }
    }
    frame::collect(&records)
}

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear statistics runs/paper/mqar
  loglinear statistics data/results/paper/mqar-small/collected.parquet --measure accuracy
  loglinear statistics runs/ablation/init --out tables")]
pub struct Statistics {
    /// Folder of a sweep or of runs, or a collected .parquet file.
    #[arg(value_name = "DIR|FILE")]
    from: PathBuf,
    /// Column to summarise.
    #[arg(long, default_value = "best_accuracy", value_name = "COLUMN")]
    measure: String,
    /// Write each table as parquet into this folder too.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Statistics {
    pub fn run(self) -> Outcome {
        let collected = if self.from.is_file() { read_parquet(&self.from)? } else { collected(&self.from)? };
        let measure = self.measure.as_str();
        let tables: [(&str, Described); 4] = [
            ("summaries", summaries(&collected, measure).map_err(Failure::Usage)?),
            ("kind-differences", kind_differences(&collected, measure)?),
            ("axis-effects", axis_effects(&collected, measure)?),
            ("best-less-last", best_less_last(&collected)?),
        ];
        for (name, mut described) in tables {
            if described.frame.height() == 0 {
                continue;
            }
            report::described(&described)?;
            if let Some(out) = &self.out {
                write_parquet(&mut described.frame, out.join(name).with_extension("parquet"))?;
            }
        }
        Ok(())
    }
}

#[derive(Args)]
#[command(after_help = "Examples:
  loglinear claims runs/paper/mqar
  loglinear claims data/results --out claims.parquet")]
pub struct Claims {
    /// Folder of a sweep, or of several.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write the table of the paper's claims as parquet too.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Claims {
    pub fn run(self) -> Outcome {
        let results = Results::find(&self.folder)?;
        if results.sweeps().next().is_none() {
            let message =
                "no sweep here or below that was collected: `loglinear sweep` and `loglinear collect` do it";
            return Err(Failure::Failed(Error::run(&self.folder, message)));
        }
        let mut claims = paper::claims(&results)?;
        report::claims("Claims of the paper, by rules written before the runs", &claims.paper)?;
        if claims.others.height() > 0 {
            report::claims(SMALL_CLAIMS, &claims.others)?;
        }
        if let Some(out) = &self.out {
            write_parquet(&mut claims.paper, out)?;
        }
        Ok(())
    }
}

/// Heading of the verdicts of small presets.
pub const SMALL_CLAIMS: &str = "Small presets and other sweeps, which say nothing of the published sizes";
