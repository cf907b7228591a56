//! How a case is run. Each try has a seed of its own. Tries that are processes run two at a time. The case ends after
//! enough tries, or when the time is over. A try that fails keeps its folder and says how to see it again.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use fdr_tests::support::random::Random;

/// Failures that are printed in full.
const SHOWN: u64 = 10;

/// What is asked for.
pub(crate) struct Plan {
    pub(crate) case: String,
    pub(crate) seed: u64,
    /// How many tries, and the number of the first.
    pub(crate) tries: u64,
    pub(crate) first: u64,
    pub(crate) begun: Instant,
    pub(crate) until: Option<Instant>,
    /// A folder on a disk.
    pub(crate) disk: PathBuf,
    /// Where cargo put the programs.
    pub(crate) programs: PathBuf,
}

/// Why a try failed.
pub(crate) enum Failure {
    /// The number of committed records that are missing everywhere.
    Lost(u64, String),
    /// The trace or the output has something wrong, or a program does not end.
    Wrong(String),
    /// The try missed its aim. A few such tries are allowed.
    Missed(String),
}

/// The result of a try.
pub(crate) type Verdict = Result<(), Failure>;

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Wrong(why)
    }
}

impl Failure {
    /// The same failure. The text begins with `what`.
    pub(crate) fn with(self, case: &str) -> Failure {
        match self {
            Failure::Lost(records, why) => Failure::Lost(records, format!("{case}: {why}")),
            Failure::Wrong(why) => Failure::Wrong(format!("{case}: {why}")),
            Failure::Missed(why) => Failure::Missed(format!("{case}: {why}")),
        }
    }
}

/// What became of the tries.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) tries: u64,
    pub(crate) survived: u64,
    pub(crate) lost: u64,
    pub(crate) wrong: u64,
    /// How often things happened that are worth knowing.
    counted: BTreeMap<String, u64>,
}

/// One try.
pub(crate) struct Try<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) index: u64,
    /// Of this try alone.
    pub(crate) seed: u64,
}

/// A try's folder, removed with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Its files, sorted by name.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        files
    }

    /// Those whose names end so.
    pub(crate) fn ending(&self, end: &str) -> Vec<PathBuf> {
        let mut files = self.files();
        files.retain(|file| file.to_string_lossy().ends_with(end));
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

impl Try<'_> {
    pub(crate) fn random(&self) -> Random {
        Random::new(self.seed)
    }

    fn name(&self) -> String {
        let Plan { case, seed, .. } = self.plan;
        // Another checkout on the same host may run the same cases with the same seeds, in the same folder of /dev/shm.
        let driver = std::process::id();
        format!("fdr-torture-{driver}-{case}-{seed}-{}", self.index)
    }

    /// A new folder, in memory or on a disk.
    pub(crate) fn folder(&self, in_memory: bool) -> Folder {
        let memory = Path::new("/dev/shm");
        let parent = match in_memory && memory.is_dir() {
            true => memory,
            false => &self.plan.disk,
        };
        let path = parent.join(self.name());
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// Ends the try with what became of it; the folder stays where that was not good.
    fn keep(&self, folder: Folder, why: &str) -> String {
        let text = format!("{why}\n  kept: {}", folder.0.display());
        std::mem::forget(folder);
        text
    }

    /// Runs a part of the try with a folder, which is kept where it fails or panics.
    pub(crate) fn within<T>(
        &self,
        in_memory: bool,
        part: impl FnOnce(&Folder) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let folder = self.folder(in_memory);
        let result = panic::catch_unwind(AssertUnwindSafe(|| part(&folder)));
        match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Failure::Wrong(why))) => Err(Failure::Wrong(self.keep(folder, &why))),
            Ok(Err(Failure::Missed(why))) => Err(Failure::Missed(self.keep(folder, &why))),
            Ok(Err(Failure::Lost(count, why))) => {
                Err(Failure::Lost(count, self.keep(folder, &why)))
            }
            Err(panic) => Err(Failure::Wrong(self.keep(folder, &message(&*panic)))),
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

impl Plan {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// What repeats that try. A round is as long as it was: cases whose programs are one round each
    /// divide the tries among them.
    fn command(&self, index: u64, weight: u64) -> String {
        let Plan { case, seed, .. } = self;
        let release = if self.is_release() { " --release" } else { "" };
        format!(
            "cargo xtask torture {case} --seed {seed} --first {index} --tries {weight}{release}"
        )
    }

    /// By the folder that cargo put the programs into.
    fn is_release(&self) -> bool {
        self.programs
            .file_name()
            .is_some_and(|name| name == "release")
    }

    /// Tries that do not look at each other, `at_once` at a time. Each counts for `weight`.
    pub(crate) fn each(
        &self,
        at_once: usize,
        weight: u64,
        body: impl Fn(&Try<'_>, &Mutex<Tally>) -> Result<(), Failure> + Sync,
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
                        let seed = Random::new(self.seed ^ index.rotate_left(32)).bits();
                        let plan = self;
                        let attempt = Try { plan, index, seed };
                        let result = body(&attempt, &tally);
                        lock(&tally).add(self, index, weight, result);
                    }
                });
            }
        });
        tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tally, also after a thread has panicked while it held the lock.
pub(crate) fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tally {
    /// Something happened once more.
    pub(crate) fn count(&mut self, event: &str, times: u64) {
        *self.counted.entry(event.to_owned()).or_default() += times;
    }

    /// How often it did.
    pub(crate) fn counted(&self, event: &str) -> u64 {
        self.counted.get(event).copied().unwrap_or(0)
    }

    /// The greatest value of something.
    pub(crate) fn most(&mut self, event: &str, value: u64) {
        let known = self.counted.entry(event.to_owned()).or_default();
        *known = value.max(*known);
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let counted = self.counted.iter();
        counted
            .map(|(event, times)| format!("{event}: {times}"))
            .collect()
    }

    fn add(&mut self, plan: &Plan, index: u64, weight: u64, result: Result<(), Failure>) {
        self.tries += weight;
        let (verdict, why) = match result {
            Ok(()) => {
                self.survived += weight;
                return;
            }
            Err(Failure::Lost(records, why)) => {
                self.lost += records.max(1);
                ("LOST", why)
            }
            Err(Failure::Wrong(why)) => {
                self.wrong += 1;
                ("WRONG", why)
            }
            Err(Failure::Missed(why)) => ("missed", why),
        };
        self.count(verdict, 1);
        if self
            .counted
            .get(verdict)
            .is_some_and(|times| *times <= SHOWN)
        {
            println!("{verdict} {why}\n  again: {}", plan.command(index, weight));
        }
    }

    /// Whether no more were missed than may be: one in a thousand.
    pub(crate) fn is_enough(&self) -> bool {
        (self.tries - self.survived) * 1000 <= self.tries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(programs: &str, first: u64) -> Plan {
        Plan {
            case: "forks".into(),
            seed: 7,
            tries: u64::MAX,
            first,
            begun: Instant::now(),
            until: Some(Instant::now()),
            disk: PathBuf::new(),
            programs: programs.into(),
        }
    }

    #[test]
    fn what_is_printed_repeats_the_try() {
        let command = plan("target/release", 0).command(5, 200);
        let words = "cargo xtask torture forks --seed 7 --first 5 --tries 200 --release";
        assert_eq!(command, words);
        assert!(!plan("target/debug", 0).command(5, 1).contains("--release"));
    }

    #[test]
    fn unnumbered_tries_begin_anywhere() {
        let made = Mutex::new(Vec::new());
        let tally = plan("target/debug", 5).each(1, 3, |attempt, _| {
            lock_of(&made).push(attempt.index);
            Ok(())
        });
        assert_eq!((tally.tries, tally.survived), (3, 3));
        assert_eq!(*lock_of(&made), [5]);
    }

    fn lock_of(made: &Mutex<Vec<u64>>) -> std::sync::MutexGuard<'_, Vec<u64>> {
        made.lock().expect("nobody panicked")
    }
}
