//! How a case is run. Each try has a seed of its own. A try that panics has failed. Tries that are processes run two at
//! a time. The case ends after enough tries, or when the time is over. A try that fails keeps its folder and says how
//! to see it again.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::random::Random;

/// What is asked for.
#[derive(clap::Parser)]
pub(crate) struct Plan {
    pub(crate) case: String,
    #[arg(long)]
    pub(crate) seed: u64,
    /// How many tries
    #[arg(long)]
    pub(crate) tries: u64,
    /// The number of the first try
    #[arg(long, default_value_t = 0)]
    pub(crate) first: u64,
    /// 0: as many as the tries take
    #[arg(long, default_value_t = 0)]
    pub(crate) seconds: u64,
    /// A folder on a disk
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// The folder of the programs that are driven
    #[arg(long, value_parser = absolute)]
    programs: PathBuf,
    /// What they are built for, if not for this system
    #[arg(long)]
    target: Option<String>,
    #[arg(skip = Instant::now())]
    pub(crate) begun: Instant,
}

/// A try's own folder is another one, where a path relative to this one would be of no program.
fn absolute(path: &str) -> io::Result<PathBuf> {
    path::absolute(path)
}

/// What became of the tries.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) tries: u64,
    pub(crate) passed: u64,
    /// How often things happened that are worth knowing.
    counted: BTreeMap<String, u64>,
}

/// One try.
pub(crate) struct Try<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) index: u64,
    /// Of this try alone.
    pub(crate) seed: u64,
    tally: &'a Mutex<Tally>,
}

impl Try<'_> {
    pub(crate) fn random(&self) -> Random {
        Random::new(self.seed)
    }

    /// A new folder, in memory or on a disk.
    pub(crate) fn folder(&self, in_memory: bool) -> Folder {
        let memory = Path::new("/dev/shm");
        let parent = match in_memory && memory.is_dir() {
            true => memory,
            false => &self.plan.folder,
        };
        let Plan { case, seed, .. } = self.plan;
        Folder::within(parent, &format!("fdr-torture-{case}-{seed}-{}", self.index))
    }

    /// A program that cargo built.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.plan.programs.join(name)
    }

    /// Something happened once more, or some times more.
    pub(crate) fn count(&self, event: &str, times: u64) {
        let mut tally = lock(self.tally);
        *tally.counted.entry(event.to_owned()).or_default() += times;
    }

    /// The greatest value of something.
    pub(crate) fn most(&self, event: &str, value: u64) {
        let mut tally = lock(self.tally);
        let known = tally.counted.entry(event.to_owned()).or_default();
        *known = value.max(*known);
    }
}

impl Plan {
    /// The processor that the driven programs are for.
    pub(crate) fn processor(&self) -> &str {
        let target = self.target.as_deref();
        target.map_or(ARCH, |target| target.split('-').next().unwrap_or(target))
    }

    /// Whether the driven programs run under an emulator.
    pub(crate) fn is_emulated(&self) -> bool {
        self.processor() != ARCH
    }

    fn is_over(&self) -> bool {
        self.seconds > 0 && self.begun.elapsed().as_secs() >= self.seconds
    }

    /// What repeats that try. A round is as long as it was: cases whose programs are one round each
    /// divide the tries among them.
    fn command(&self, index: u64, weight: u64) -> String {
        let Plan { case, seed, .. } = self;
        let mut command =
            format!("cargo xtask torture {case} --seed {seed} --first {index} --tries {weight}");
        if self.programs.ends_with("release") {
            command += " --release";
        }
        if let Some(target) = &self.target {
            command += &format!(" --target {target}");
        }
        command
    }

    /// Tries that do not look at each other, `at_once` at a time. Each counts for `weight`.
    pub(crate) fn each(
        &self,
        at_once: usize,
        weight: u64,
        body: impl Fn(&Try<'_>) + Sync,
    ) -> Tally {
        let (next, tally) = (AtomicU64::new(self.first), Mutex::new(Tally::default()));
        let end = self.first.saturating_add(self.tries.div_ceil(weight));
        thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= end || (self.is_over() && index > self.first) {
                            break;
                        }
                        let attempt = Try {
                            plan: self,
                            index,
                            seed: Random::new(self.seed ^ index.rotate_left(32)).bits(),
                            tally: &tally,
                        };
                        let result = panic::catch_unwind(AssertUnwindSafe(|| body(&attempt)));
                        let mut tally = lock(&tally);
                        tally.tries += weight;
                        match result {
                            Ok(()) => tally.passed += weight,
                            Err(_) => println!("FAILED; again: {}", self.command(index, weight)),
                        }
                    }
                });
            }
        });
        tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tally, also after a thread has panicked while it held the lock.
fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tally {
    /// How often it did.
    pub(crate) fn counted(&self, event: &str) -> u64 {
        self.counted.get(event).copied().unwrap_or(0)
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let counted = self.counted.iter();
        counted
            .map(|(event, times)| format!("{event}: {times}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn plan(programs: &str, first: &str) -> Plan {
        let words = "torture forks --seed 7 --tries 18446744073709551615 --folder .";
        let options = ["--first", first, "--programs", programs];
        let mut plan = Plan::parse_from(words.split(' ').chain(options));
        plan.seconds = 1;
        plan.begun = Instant::now() - std::time::Duration::from_secs(1);
        plan
    }

    #[test]
    fn what_is_printed_repeats_the_try() {
        let command = plan("target/release", "0").command(5, 200);
        let words = "cargo xtask torture forks --seed 7 --first 5 --tries 200 --release";
        assert_eq!(command, words);
        let debug = plan("target/debug", "0").command(5, 1);
        assert!(!debug.contains("--release"));
    }

    #[test]
    fn unnumbered_tries_begin_anywhere() {
        let made = Mutex::new(Vec::new());
        let tally = plan("target/debug", "5").each(1, 3, |attempt| {
            made.lock().expect("no panic").push(attempt.index);
        });
        assert_eq!((tally.tries, tally.passed), (3, 3));
        assert_eq!(*made.lock().expect("no panic"), [5]);
    }

    #[test]
    fn panics_are_failed_tries() {
        let tally = plan("target/debug", "0").each(1, 1, |_| panic!("wanted"));
        assert_eq!((tally.tries, tally.passed), (1, 0));
    }
}
