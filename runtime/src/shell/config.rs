//! What a run is to do, as its environment says. Must never read the environment itself, print, or
//! accept a value that it does not understand: who asks for a recording with a mistyped setting gets
//! a line about the mistake, and no recording of something else.

mod signal;
mod value;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use fdr_formats::address::{Address, Side};
use fdr_formats::filter::{Filter, nearest};
use fdr_formats::registry;
use fdr_formats::writer::{Kind, Target};

use super::output::Output;
use value::{choice, escaped, named, size, size_text};

/// Size of a chunk of the ring, bytes; rings and the budget are multiples of it.
const CHUNK: u64 = 64 << 10;

/// The smallest ring: two chunks, one to write and one to read. Bytes.
const SMALLEST_RING: u64 = 2 * CHUNK;

/// Every variable that is read.
pub(crate) const VARIABLES: [&str; 12] = [
    "FDR",
    "FDR_BUFFER",
    "FDR_CLOCK",
    "FDR_CRASH",
    "FDR_DIR",
    "FDR_FORMAT",
    "FDR_LOG",
    "FDR_MEMORY",
    "FDR_MODE",
    "FDR_OUT",
    "FDR_PANIC",
    "FDR_SIGNAL",
];

/// What happens when a thread's ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The newest records replace the oldest.
    Ring,
    /// The oldest records are kept, and later ones are counted only.
    Full,
    /// Records are handed over while they are made; those that can't be are replaced as in `Ring`.
    Stream,
}

/// The clock that is asked for; see [`crate::clock::choose`] for the one that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The CPU's counter, read so that it waits for earlier loads.
    Rdtscp,
    /// The CPU's counter at half the price, which does not wait.
    Rdtsc,
    /// The operating system's clock.
    Monotonic,
}

/// What is printed on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Log {
    /// Nothing but why there is no recording.
    Quiet,
    /// What went wrong, and where traces are.
    Warn,
    /// Also what was set up.
    Info,
}

/// The way in which traces are written: one of [`registry::targets`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format(pub(crate) &'static Target);

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Format {}

/// What is written where nothing is said: files, and streams.
const DEFAULT_FORMAT: &str = "xray";
const DEFAULT_STREAM: &str = "htdump";

const MODES: [(&str, Mode); 3] = [
    ("ring", Mode::Ring),
    ("full", Mode::Full),
    ("stream", Mode::Stream),
];
const CLOCKS: [(&str, Clock); 3] = [
    ("rdtscp", Clock::Rdtscp),
    ("rdtsc", Clock::Rdtsc),
    ("monotonic", Clock::Monotonic),
];
const LOGS: [(&str, Log); 3] = [
    ("quiet", Log::Quiet),
    ("warn", Log::Warn),
    ("info", Log::Info),
];
const SWITCH: [(&str, bool); 4] = [("1", true), ("0", false), ("on", true), ("off", false)];

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// `FDR`: what is recorded; off where it is unset.
    pub(crate) filter: Filter,
    /// `FDR_OUT`: the pattern of files' names; where it is an address, the default one.
    pub(crate) output: Output,
    /// `FDR_OUT`, where it is an address.
    pub(crate) address: Option<Address>,
    /// `FDR_FORMAT`.
    pub(crate) format: Format,
    /// `FDR_SIGNAL`: the number of the signal that dumps.
    pub(crate) signal: Option<i32>,
    /// `FDR_BUFFER`: ring per thread, a multiple of the chunk.
    pub(crate) buffer_bytes: u64,
    /// `FDR_MEMORY`: all rings together, a multiple of the chunk, and at least one ring.
    pub(crate) memory_bytes: u64,
    /// `FDR_MODE`.
    pub(crate) mode: Mode,
    /// `FDR_CLOCK`.
    pub(crate) clock: Clock,
    /// `FDR_DIR`, absolute if the folder at start was; `None`: the output's folder. Where no trace is wanted,
    /// `None` is no folder: the ring has no file then.
    pub(crate) dir: Option<PathBuf>,
    /// `FDR_LOG`.
    pub(crate) log: Log,
    /// `FDR_PANIC`: whether a panic dumps.
    pub(crate) panic: bool,
    /// `FDR_CRASH`: whether a signal that means a crash dumps.
    pub(crate) crash: bool,
}

impl Config {
    /// Reads every variable through `get`. An empty value counts as unset. Relative paths are within
    /// `start`, the folder in which the program was started.
    ///
    /// # Errors
    /// One line per invalid value, each with the variable, the value and what is accepted.
    pub(crate) fn from(
        get: impl Fn(&str) -> Option<OsString>,
        start: &Path,
    ) -> Result<Config, Vec<String>> {
        let mut from = Reader {
            get,
            errors: Vec::new(),
        };
        let address = from.address(start);
        let format = from.format(address.as_ref())?;
        let (buffer_bytes, memory_bytes) = from.sizes();
        let output = from.output(start, format.0.extension, address.is_some());
        let dir = from.raw("FDR_DIR").map(|dir| start.join(dir));
        let config = Config {
            filter: from.text("FDR", Filter::parse).unwrap_or_default(),
            // Beside a device there is no place for a ring.
            dir: dir.or_else(|| output.is_device().then(|| start.to_owned())),
            output,
            address,
            format,
            signal: from
                .text("FDR_SIGNAL", signal::parse)
                .unwrap_or(Some(libc::SIGUSR2)),
            buffer_bytes,
            memory_bytes,
            mode: from
                .text("FDR_MODE", |v| choice(v, &MODES))
                .unwrap_or(Mode::Ring),
            clock: from
                .text("FDR_CLOCK", |v| choice(v, &CLOCKS))
                .unwrap_or(Clock::Rdtscp),
            log: from
                .text("FDR_LOG", |v| choice(v, &LOGS))
                .unwrap_or(Log::Warn),
            panic: from
                .text("FDR_PANIC", |v| choice(v, &SWITCH))
                .unwrap_or(false),
            crash: from
                .text("FDR_CRASH", |v| choice(v, &SWITCH))
                .unwrap_or(true),
        };
        if from.errors.is_empty() {
            Ok(config)
        } else {
            Err(from.errors)
        }
    }
}

/// A line about each variable that begins like ours and is none of them: a mistyped one would
/// otherwise be ignored in silence.
pub(crate) fn unknown_variables(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let ours = |name: &OsString| {
        name.to_str()
            .is_some_and(|name| name.starts_with("FDR_") && !VARIABLES.contains(&name))
    };
    let warning = |name: OsString| {
        let nearest = nearest(VARIABLES, &name.to_string_lossy(), 1);
        let nearest = nearest.first().copied().unwrap_or_default();
        format!(
            "{}: no such variable, ignored; the nearest is {nearest}",
            escaped(&name)
        )
    };
    names.filter(ours).map(warning).collect()
}

/// Takes values out of the environment and collects what is wrong with them.
struct Reader<G> {
    get: G,
    errors: Vec<String>,
}

impl<G: Fn(&str) -> Option<OsString>> Reader<G> {
    fn raw(&self, name: &str) -> Option<OsString> {
        (self.get)(name).filter(|value| !value.is_empty())
    }

    /// The parsed value; `None` where it is unset or, with an error noted, invalid.
    fn text<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = self.raw(name)?;
        let parsed = match value.to_str() {
            Some(text) => parse(text.trim()),
            None => Err("not UTF-8".to_owned()),
        };
        parsed
            .map_err(|problem| self.refuse(name, &value, &problem))
            .ok()
    }

    fn refuse(&mut self, name: &str, value: &OsStr, problem: &str) {
        self.errors
            .push(format!("{name}={}: {problem}", escaped(value)));
    }

    fn address(&mut self, start: &Path) -> Option<Address> {
        let value = self.raw("FDR_OUT")?;
        let parsed = Address::parse(&value, start, Side::Program)?;
        // After a mistake the value is an address all the same, not a file's name.
        Some(parsed.unwrap_or_else(|problem| {
            self.refuse("FDR_OUT", &value, &problem);
            Address::Stdout
        }))
    }

    /// The format; the error is that of a build without any that fits.
    fn format(&mut self, address: Option<&Address>) -> Result<Format, Vec<String>> {
        let fits = |target: &&Target| address.is_none() || target.kind == Kind::Stream;
        let fitting: Vec<&str> = registry::targets()
            .filter(fits)
            .map(|target| target.name)
            .collect();
        let parse = |text: &str| {
            let target = named(text, registry::targets(), |target| target.name)?;
            if fits(&target) {
                return Ok(Format(target));
            }
            Err(format!(
                "can't be sent as a stream, which FDR_OUT asks for; accepted are {}",
                fitting.join(", ")
            ))
        };
        if let Some(format) = self.text("FDR_FORMAT", parse) {
            return Ok(format);
        }
        let default = if address.is_some() {
            DEFAULT_STREAM
        } else {
            DEFAULT_FORMAT
        };
        registry::target(default)
            .or_else(|| registry::targets().find(fits))
            .map(Format)
            .ok_or_else(|| vec!["FDR_OUT: no format can be sent as a stream".to_owned()])
    }

    fn output(&mut self, start: &Path, extension: &str, is_address: bool) -> Output {
        if let Some(value) = self.raw("FDR_OUT").filter(|_| !is_address) {
            match Output::parse(&value, start, extension) {
                Ok(output) => return output,
                Err(problem) => self.refuse("FDR_OUT", &value, &problem),
            }
        }
        Output::default_in(start, extension)
    }

    /// `FDR_BUFFER` and `FDR_MEMORY`, which must fit each other.
    fn sizes(&mut self) -> (u64, u64) {
        let ring = |text: &str| match size(text)? {
            bytes if bytes < SMALLEST_RING => Err("too small; the least is 128K".to_owned()),
            bytes => Ok(bytes),
        };
        let buffer = self.text("FDR_BUFFER", |text| {
            ring(text)?
                .checked_next_multiple_of(CHUNK)
                .ok_or_else(value::too_large)
        });
        let memory = self
            .text("FDR_MEMORY", ring)
            .map_or(1 << 30, |bytes| bytes / CHUNK * CHUNK);
        if let Some(buffer) = buffer.filter(|&buffer| buffer > memory) {
            let value = self.raw("FDR_BUFFER").unwrap_or_default();
            let (buffer, memory) = (size_text(buffer), size_text(memory));
            let problem = format!("a ring of {buffer} exceeds the budget FDR_MEMORY, {memory}");
            self.refuse("FDR_BUFFER", &value, &problem);
        }
        // A small budget alone shall not be an error about a variable that nobody set.
        (buffer.unwrap_or_else(|| memory.min(4 << 20)), memory)
    }
}

#[cfg(test)]
mod tests;
