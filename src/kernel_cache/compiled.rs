//! What a process compiled anew.

use super::{TOPIC, compiler, prepared};
use std::fmt;
use std::sync::Mutex;

/// Kernels that a process compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Compiled {
    /// Compiled anew.
    pub kernels: usize,
    /// Seconds that took, from CubeCL's definition of a kernel until the GPU had it.
    pub seconds: f64,
    /// Taken over from another build of the program, whose sources they share.
    pub taken_over: usize,
    /// Seconds that took.
    pub taken_over_seconds: f64,
}

impl Compiled {
    /// What this process compiled so far. None if nothing says it: it computes on the CPU, or kernels aren't kept. Only
    /// kernels that were kept are counted, and none if the reader's configuration turns CubeCL's records off.
    pub fn so_far() -> Option<Self> {
        prepared().filter(|prepared| prepared.kept).and_then(|_| compiler::compiled())
    }

    /// What was compiled since this was asked the last time; none if nothing was.
    pub fn news() -> Option<Self> {
        static TOLD: Mutex<Option<Compiled>> = Mutex::new(None);
        let now = Self::so_far()?;
        let mut told = TOLD.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = told.replace(now).unwrap_or_default();
        let news = Self {
            kernels: now.kernels.saturating_sub(before.kernels),
            seconds: (now.seconds - before.seconds).max(0.0),
            taken_over: now.taken_over.saturating_sub(before.taken_over),
            taken_over_seconds: (now.taken_over_seconds - before.taken_over_seconds).max(0.0),
        };
        (news.kernels + news.taken_over > 0).then_some(news)
    }
}

impl fmt::Display for Compiled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(TOPIC)?;
        if self.kernels > 0 {
            write!(formatter, "compiled {} in {:.1} s", self.kernels, self.seconds)?;
        }
        if self.taken_over > 0 {
            let comma = if self.kernels > 0 { ", " } else { "" };
            let (count, seconds) = (self.taken_over, self.taken_over_seconds);
            write!(
                formatter,
                "{comma}took {count} over from another build of the program in {seconds:.1} s"
            )?;
        }
        match prepared() {
            Some(prepared) => {
                let place = prepared.place.file.display();
                write!(formatter, " (kept in {place}; the next start reuses them)")
            }
            None => Ok(()),
        }
    }
}

/// What to say before the first step, if there are no kernels yet; once.
pub(crate) fn first_start() -> Option<String> {
    static SAID: std::sync::Once = std::sync::Once::new();
    let prepared = prepared().filter(|prepared| prepared.first && prepared.kept)?;
    let mut line = None;
    SAID.call_once(|| {
        let place = prepared.place.file.display();
        line = Some(format!("{TOPIC}compiled on this first start, for up to a minute, and kept in {place}"));
    });
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_compiled_and_what_taken_over() {
        let compiled = Compiled { kernels: 37, seconds: 12.34, ..Compiled::default() };
        assert_eq!(compiled.to_string(), "GPU kernels: compiled 37 in 12.3 s");
        let both = Compiled { taken_over: 280, taken_over_seconds: 1.42, ..compiled };
        assert_eq!(
            both.to_string(),
            "GPU kernels: compiled 37 in 12.3 s, took 280 over from another build of the program in 1.4 s"
        );
        // A process on the CPU compiles nothing.
        assert_eq!(Compiled::news(), None);
    }
}
