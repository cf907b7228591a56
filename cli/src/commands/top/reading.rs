//! A look at a running process: what its rings hold, and how long the system let each thread run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Instant;

use fdr_formats::TraceInfo;
use fdr_formats::ring::{Reading, Ring};

use super::states::{self, StateTimes, Watermark};
use crate::clock;
use crate::ring::find::{self, RingAccess};
use crate::ring::{self, mapped};

/// A process that is looked at again and again.
pub(super) struct Watched {
    pub(super) process: u32,
    /// The rings as they were opened, which outlive their process.
    files: Vec<(PathBuf, File)>,
    /// Up to where the last look knew the states of the threads, ring by ring.
    watermarks: Vec<Watermark>,
}

/// What the rings held at one moment.
pub(super) struct RingSample {
    pub(super) at: Instant,
    pub(super) rings: Vec<OneRing>,
    /// By the system's numbers of the threads.
    pub(super) spent: BTreeMap<u64, Spent>,
    /// Why there will be no other look.
    pub(super) over: Option<String>,
}

pub(super) struct OneRing {
    /// Its functions, its clock, its program.
    pub(super) info: TraceInfo,
    pub(super) reading: Reading,
    /// The functions' states since the look before. `None`: the process does not tell them, or not yet.
    pub(super) states: Option<StateTimes>,
}

/// What the system counted of a thread, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) running_ns: u64,
    /// Ready, and waiting for a CPU.
    pub(super) ready_ns: u64,
}

impl Watched {
    pub(super) fn new(process: u32) -> Watched {
        Watched {
            process,
            files: Vec::new(),
            watermarks: Vec::new(),
        }
    }

    /// Reads the rings of the process. If the process has ended, reads them for the last time.
    ///
    /// # Errors
    /// Where it never recorded, or its rings can't be read.
    pub(super) fn look(&mut self) -> anyhow::Result<RingSample> {
        match find::rings(self.process, RingAccess::Reading) {
            Ok(found) => {
                let mut rings = Vec::new();
                self.files.clear();
                for mapped in found {
                    self.files.push((mapped.path, mapped.file));
                    rings.push(mapped.ring);
                }
                let spent = spent(self.process);
                self.look_at(rings, spent, None)
            }
            Err(error) if self.files.is_empty() => Err(error),
            Err(error) => {
                let over = match find::has_ended(self.process) {
                    true => format!("process {} has ended", self.process),
                    false => error.to_string(),
                };
                let mut rings = Vec::new();
                for (path, file) in &self.files {
                    rings.push(ring::open(path, file.try_clone()?)?);
                }
                self.look_at(rings, BTreeMap::new(), Some(over))
            }
        }
    }

    fn look_at(
        &mut self,
        rings: Vec<Ring>,
        spent: BTreeMap<u64, Spent>,
        over: Option<String>,
    ) -> anyhow::Result<RingSample> {
        let at = Instant::now();
        let before = std::mem::take(&mut self.watermarks);
        let mut before = before.into_iter();
        let mut all = Vec::new();
        for mut ring in rings {
            if let Some(now) = clock::monotonic_raw_ns() {
                ring.lasts_until(now);
            }
            let reading = ring.reading()?;
            let info = ring.take_info("");
            let watermark = Watermark::new(&info, &reading);
            let states = match before.next() {
                Some(before) => states::between(&ring, &info, &before, &watermark)?,
                None => None,
            };
            self.watermarks.push(watermark);
            all.push(OneRing {
                info,
                reading,
                states,
            });
        }
        Ok(RingSample {
            at,
            rings: all,
            spent,
            over,
        })
    }
}

/// What the system counted of the threads, by the numbers that they have in their own container.
fn spent(process: u32) -> BTreeMap<u64, Spent> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let thread_and_spent = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        let inside = mapped::numbers(number).last().copied();
        Some((inside.unwrap_or(number).into(), parse(&text)?))
    };
    tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(thread_and_spent)
        .collect()
}

/// `running ready times`, in ns.
fn parse(schedstat: &str) -> Option<Spent> {
    let mut words = schedstat.split_ascii_whitespace();
    let mut number = || words.next()?.parse().ok();
    Some(Spent {
        running_ns: number()?,
        ready_ns: number()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_counts_of_a_thread() {
        let spent = |running_ns, ready_ns| {
            Some(Spent {
                running_ns,
                ready_ns,
            })
        };
        assert_eq!(parse("12 34 5\n"), spent(12, 34));
        assert_eq!(parse("12"), None);
        assert_eq!(parse(""), None);
        let own = super::spent(std::process::id());
        assert!(own.values().any(|spent| spent.running_ns > 0), "{own:?}");
    }
}
