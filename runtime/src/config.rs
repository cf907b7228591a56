//! The settings that a program chooses in its code instead of by the environment. It keeps them as the text of the
//! variables, so both are parsed in the same way.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

/// What happens when a thread's ring is full: `FDR_MODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The newest records overwrite the oldest.
    Ring,
    /// The oldest records are kept, and later ones are dropped.
    Full,
    /// Records are handed over while the program runs. Records that are not handed over in time are
    /// overwritten. Needs the feature `stream`; without it nothing is recorded.
    Stream,
}

/// The clock that is asked for: `FDR_CLOCK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The CPU's counter, read so that it waits for earlier loads.
    Rdtscp,
    /// The CPU's counter at half the price, which does not wait.
    Rdtsc,
    /// The operating system's clock.
    Monotonic,
}

/// What is printed on stderr: `FDR_LOG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Log {
    /// Nothing but why there is no recording.
    Quiet,
    /// What went wrong, and where traces are.
    Warn,
    /// Also what was set up.
    Info,
}

impl Mode {
    pub(crate) const WORDS: [(&str, Mode); 3] = [
        ("ring", Mode::Ring),
        ("full", Mode::Full),
        ("stream", Mode::Stream),
    ];
}

impl Clock {
    pub(crate) const WORDS: [(&str, Clock); 3] = [
        ("rdtscp", Clock::Rdtscp),
        ("rdtsc", Clock::Rdtsc),
        ("monotonic", Clock::Monotonic),
    ];
}

impl Log {
    pub(crate) const WORDS: [(&str, Log); 3] = [
        ("quiet", Log::Quiet),
        ("warn", Log::Warn),
        ("info", Log::Info),
    ];
}

/// A choice as the word that stands for it.
pub(crate) fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], choice: T) -> &'static str {
    let found = words.iter().find(|(_, value)| *value == choice);
    found.map_or("", |(word, _)| word)
}

#[cfg(all(feature = "record", target_os = "linux"))]
/// Every variable that is read, and the method that sets the same value.
pub(crate) static VARIABLES: [(&str, &str); 19] = [
    ("FDR", "filter"),
    ("FDR_BUDGET", "budget"),
    ("FDR_BUFFER", "buffer"),
    ("FDR_CLOCK", "clock"),
    ("FDR_CRASH", "crash"),
    ("FDR_DIR", "dir"),
    ("FDR_FORMAT", "format"),
    ("FDR_KEEP", "keep"),
    ("FDR_LOG", "log"),
    ("FDR_MEMORY", "memory"),
    ("FDR_MODE", "mode"),
    ("FDR_OUT", "output"),
    ("FDR_OUT_MOST", "output_most"),
    ("FDR_PANIC", "panic"),
    ("FDR_SCHED", "sched"),
    ("FDR_SIGNAL", "signal"),
    ("FDR_TAGS", "tags"),
    ("FDR_TRIGGER", "trigger"),
    ("FDR_VERSION", "version"),
];

/// How a program is to be recorded, chosen in its code.
///
/// **The environment wins**: a variable that is set replaces the value of the code. So a user can change how
/// a program is recorded without building it again. `FDR=off` turns recording off.
///
/// Each method sets the value of the variable that it names. Values and defaults are those of the variable: see
/// `docs/variables.md`. [`enable`](Config::enable) checks the values.
///
/// # Examples
/// ```
/// use fdr::{Clock, Config, Log};
///
/// #[fdr::traced]
/// fn work() {}
///
/// # let folder = std::env::temp_dir();
/// Config::new()
///     .filter("*,-my_app::hot::*")
///     .output(folder.join("%e.%p.%n.fdr"))
///     .buffer(1 << 20)
///     .clock(Clock::Rdtsc)
///     .log(Log::Quiet)
///     .enable()?;
/// work();
/// # fdr::disable();
/// # Ok::<(), fdr::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing before `enable`"]
pub struct Config {
    values: Vec<(&'static str, OsString)>,
}

impl Config {
    /// Chooses nothing, so the variables and the defaults are used.
    pub fn new() -> Config {
        Config::default()
    }

    /// Which functions are recorded, `FDR`: a comma list of globs on function names. A `-` before a glob
    /// excludes functions. Default: all.
    pub fn filter(self, filter: impl AsRef<str>) -> Config {
        self.with("FDR", filter.as_ref())
    }

    /// Where traces go, `FDR_OUT`: a file, a folder, or with the feature `stream` an address.
    pub fn output(self, output: impl AsRef<OsStr>) -> Config {
        self.with("FDR_OUT", output)
    }

    /// The limit, `FDR_OUT_MOST`, for the traces that the program's triggers have made, and for the rings of its runs
    /// that were killed: a number of files, a size, or both: `10,1G`.
    pub fn output_most(self, most: impl AsRef<str>) -> Config {
        self.with("FDR_OUT_MOST", most.as_ref())
    }

    /// What makes the program dump by itself, `FDR_TRIGGER`: `my_app::handle>50ms +2s, panic, exit`. Default: its end.
    pub fn trigger(self, triggers: impl AsRef<str>) -> Config {
        self.with("FDR_TRIGGER", triggers.as_ref())
    }

    /// The format of traces, `FDR_FORMAT`, by its name.
    pub fn format(self, name: impl AsRef<str>) -> Config {
        self.with("FDR_FORMAT", name.as_ref())
    }

    /// The signal that dumps, `FDR_SIGNAL`: a name, a number, or `none`.
    pub fn signal(self, signal: impl AsRef<str>) -> Config {
        self.with("FDR_SIGNAL", signal.as_ref())
    }

    /// The ring of each thread in bytes, `FDR_BUFFER`.
    #[inline]
    pub fn buffer(self, bytes: u64) -> Config {
        self.with_bytes("FDR_BUFFER", bytes)
    }

    /// All rings together in bytes, `FDR_MEMORY`.
    #[inline]
    pub fn memory(self, bytes: u64) -> Config {
        self.with_bytes("FDR_MEMORY", bytes)
    }

    /// The time that a full ring should hold, `FDR_KEEP`: to hold it, short calls leave only sums. Zero: each call
    /// leaves its records.
    #[inline]
    pub fn keep(self, time: Duration) -> Config {
        self.with("FDR_KEEP", format!("{}ns", time.as_nanos()))
    }

    /// The part of the program's CPU time that recording may take, `FDR_BUDGET`, in percent. If recording takes more,
    /// the calls of some functions are only counted. 0: no limit.
    #[inline]
    pub fn budget(self, percent: u8) -> Config {
        self.with("FDR_BUDGET", format!("{percent}%"))
    }

    /// Whether to record when threads run, are preempted and wait, `FDR_SCHED`.
    #[inline]
    pub fn sched(self, records: bool) -> Config {
        self.with("FDR_SCHED", if records { "1" } else { "0" })
    }

    /// What happens when a ring is full, `FDR_MODE`.
    #[inline]
    pub fn mode(self, mode: Mode) -> Config {
        self.with("FDR_MODE", word(&Mode::WORDS, mode))
    }

    /// The clock, `FDR_CLOCK`.
    #[inline]
    pub fn clock(self, clock: Clock) -> Config {
        self.with("FDR_CLOCK", word(&Clock::WORDS, clock))
    }

    /// Whether a crash writes a trace, `FDR_CRASH`.
    #[inline]
    pub fn crash(self, dumps: bool) -> Config {
        self.with("FDR_CRASH", if dumps { "1" } else { "0" })
    }

    /// Whether a panic writes a trace, `FDR_PANIC`.
    #[inline]
    pub fn panic(self, dumps: bool) -> Config {
        self.with("FDR_PANIC", if dumps { "1" } else { "0" })
    }

    /// The folder of the ring file, `FDR_DIR`.
    pub fn dir(self, folder: impl AsRef<Path>) -> Config {
        self.with("FDR_DIR", folder.as_ref())
    }

    /// What is printed on stderr, `FDR_LOG`.
    #[inline]
    pub fn log(self, log: Log) -> Config {
        self.with("FDR_LOG", word(&Log::WORDS, log))
    }

    /// Words that tell this run from others, `FDR_TAGS`: `key=value`, with commas between. Each trace has them.
    pub fn tags(self, tags: impl AsRef<str>) -> Config {
        self.with("FDR_TAGS", tags.as_ref())
    }

    /// The version of the program, `FDR_VERSION`. Each trace has it. Default: the version of the binary's package, if a
    /// function of the binary itself is traced.
    pub fn version(self, version: impl AsRef<str>) -> Config {
        self.with("FDR_VERSION", version.as_ref())
    }

    #[inline]
    fn with_bytes(self, variable: &'static str, bytes: u64) -> Config {
        match cfg!(all(feature = "record", target_os = "linux")) {
            true => self.with(variable, bytes.to_string()),
            false => self,
        }
    }

    /// A later choice replaces an earlier one. Without the recorder nothing is kept, not even the name.
    fn with(mut self, variable: &'static str, value: impl AsRef<OsStr>) -> Config {
        if cfg!(all(feature = "record", target_os = "linux")) {
            self.values.retain(|(name, _)| *name != variable);
            self.values.push((variable, value.as_ref().to_owned()));
        }
        self
    }

    #[cfg(all(feature = "record", target_os = "linux"))]
    /// What was chosen for a variable.
    pub(crate) fn get(&self, variable: &str) -> Option<&OsString> {
        let mut values = self.values.iter();
        values.find_map(|(name, value)| (*name == variable).then_some(value))
    }

    #[cfg(all(feature = "record", target_os = "linux"))]
    /// Whether nothing was chosen.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    #[cfg(all(feature = "record", target_os = "linux"))]
    /// Whether nothing was chosen but, perhaps, a filter.
    pub(crate) fn is_of_filter_only(&self) -> bool {
        self.values.iter().all(|(name, _)| *name == "FDR")
    }
}
