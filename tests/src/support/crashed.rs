//! Runs a program that crashes. It must end soon after the crash. The program writes the time of the crash into a file,
//! so the time that a busy machine takes to start it does not count.

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::folder::Folder;
use super::program::{Outcome, Program};

/// The variable that names the file.
const VARIABLE: &str = "CRASHED_FILE";

/// Nothing may take longer from the crash to the end.
const MAX: Duration = Duration::from_secs(2);

/// A program that crashes, by its path.
#[derive(Clone, Copy, Debug)]
pub struct Crasher(pub &'static str);

impl Crasher {
    /// Runs it to its end, with the variables `"FDR=1 FDR_MODE=full"`.
    ///
    /// # Panics
    ///
    /// If its end takes too long.
    #[must_use]
    pub fn run(self, folder: &Folder, variables: &str, arguments: &[&str]) -> Outcome {
        let crashed = Crashed::new();
        let program = Program::new(self.0, folder).args(arguments).set(variables);
        let outcome = program.env(VARIABLE, crashed.path()).run();
        let took = crashed.elapsed();
        assert!(took < MAX, "{arguments:?} took {took:?}");
        outcome
    }

    /// The same without the recorder: how it ends.
    ///
    /// # Panics
    ///
    /// Like [`Crasher::run`].
    #[must_use]
    pub fn untraced(self, arguments: &[&str]) -> Outcome {
        self.run(&Folder::new("crash-untraced"), "", arguments)
    }

    /// It ended by `signal`, as it does without the recorder; returns what that run was like.
    ///
    /// # Panics
    ///
    /// If one of the two ended in another way.
    #[must_use]
    pub fn ended_as_untraced(self, outcome: &Outcome, arguments: &[&str], signal: i32) -> Outcome {
        assert_eq!(outcome.status.signal(), Some(signal), "{outcome:?}");
        let plain = self.untraced(arguments);
        assert_eq!(plain.status.signal(), Some(signal), "{plain:?}");
        plain
    }
}

/// A file for a program's note, in a folder of its own.
#[derive(Debug)]
struct Crashed {
    folder: Folder,
    begun: Duration,
    /// Of the disk's waits, what there was before.
    waits: Duration,
}

impl Crashed {
    /// For a program that is to be started now.
    fn new() -> Crashed {
        Crashed {
            folder: Folder::new("crashed"),
            begun: since_boot(),
            waits: waits_for_disks(),
        }
    }

    /// The file.
    fn path(&self) -> PathBuf {
        self.folder.join("note")
    }

    /// Time since the program's note; since the beginning where it made none. Less what a disk has kept
    /// programs waiting meanwhile: others that write can hold up a small file for seconds.
    fn elapsed(&self) -> Duration {
        let noted = fs::read_to_string(self.path()).map(|text| {
            let ms = text.parse().expect("a number of milliseconds");
            Duration::from_millis(ms)
        });
        let waits = waits_for_disks().saturating_sub(self.waits);
        since_boot().saturating_sub(noted.unwrap_or(self.begun) + waits)
    }
}

/// The part of the program, just before it crashes. Does nothing if the variable is not set, or if there is no free
/// descriptor.
pub fn note() {
    if let Some(path) = env::var_os(VARIABLE) {
        // Two threads may be about to crash. Then the first crash ends the other thread while it writes.
        let whole = PathBuf::from(path);
        let own = whole.with_extension(format!("{:?}", thread::current().id()));
        let written = fs::write(&own, since_boot().as_millis().to_string());
        let _ = written.and_then(|()| fs::rename(own, whole));
    }
}

/// How long some program waited for a disk, since the system's start; nothing where the kernel does not say.
fn waits_for_disks() -> Duration {
    let pressure = fs::read_to_string("/proc/pressure/io").unwrap_or_default();
    Duration::from_micros(total_of_some(&pressure).unwrap_or(0))
}

/// Source: Linux, Documentation/accounting/psi.rst.
fn total_of_some(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.parse().ok()
}

/// To a hundredth of a second; the same in every process.
fn since_boot() -> Duration {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = uptime.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_waits_come_from_the_kernel() {
        let text = "some avg10=0.63 avg60=0.90 avg300=1.44 total=912609018\n\
                    full avg10=0.52 avg60=0.48 avg300=0.22 total=324007626\n";
        assert_eq!(total_of_some(text), Some(912_609_018));
        assert_eq!(total_of_some(""), None);
    }
}
