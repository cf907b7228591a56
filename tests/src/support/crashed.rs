//! When a program is about to crash, told by itself in a file, so that a busy machine's time for its start
//! is not taken for that of its end. Must never go by a clock that somebody can set.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::folder::Folder;

/// The variable that names the file.
pub const VARIABLE: &str = "CRASHED_FILE";

/// A file for a program's note, in a folder of its own.
#[derive(Debug)]
pub struct Crashed {
    folder: Folder,
    begun: Duration,
}

impl Crashed {
    /// For a program that is to be started now.
    #[must_use]
    pub fn new() -> Crashed {
        Crashed {
            folder: Folder::new("crashed"),
            begun: since_boot(),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("note")
    }

    /// Time since the program's note; since the beginning where it made none.
    ///
    /// # Panics
    ///
    /// If what it noted is no number.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let noted = fs::read_to_string(self.path()).map(|text| {
            let ms = text.parse().expect("a number of milliseconds");
            Duration::from_millis(ms)
        });
        since_boot().saturating_sub(noted.unwrap_or(self.begun))
    }
}

impl Default for Crashed {
    fn default() -> Crashed {
        Crashed::new()
    }
}

/// The program's half, just before it crashes: nothing where nobody asks for it, or no descriptor is left.
pub fn note() {
    if let Some(path) = env::var_os(VARIABLE) {
        let _ = fs::write(path, since_boot().as_millis().to_string());
    }
}

/// To a hundredth of a second; the same in every process.
fn since_boot() -> Duration {
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = uptime.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(0.0))
}
