//! What a run is to do, as its environment and its code say. The one place of rules and defaults for both.
//! Must never read the environment itself, print, or accept a value that it does not understand: who asks for
//! a recording with a mistyped setting gets a line about the mistake, and no recording of something else.

mod signal;
mod value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use fdr_formats::address::{Address, Side};
use fdr_formats::filter::{Filter, nearest};
use fdr_formats::registry;
use fdr_formats::writer::{Kind, Target};

use crate::config::{Clock, Config, Log, Mode, VARIABLES};
use crate::dump::output::Output;
use value::{choice, escaped, named, size, size_text};

/// Size of a chunk of the ring, bytes; rings and the budget are multiples of it.
const CHUNK: u64 = 64 << 10;

/// The smallest ring: two chunks, one to write and one to read. Bytes.
const SMALLEST_RING: u64 = 2 * CHUNK;

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

const SWITCH: [(&str, bool); 4] = [("1", true), ("0", false), ("on", true), ("off", false)];

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `FDR`: what is recorded; `None` where nobody said.
    pub(crate) filter: Option<Filter>,
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

impl Settings {
    /// Reads every variable through `get`, and where it is unset what the code chose. An empty variable
    /// counts as unset. Relative paths are within `start`, the folder in which the program was started.
    ///
    /// # Errors
    /// One line per invalid value, each with the variable or the method, the value and what is accepted.
    pub(crate) fn from(
        get: impl Fn(&str) -> Option<OsString>,
        code: &Config,
        start: &Path,
    ) -> Result<Settings, Vec<String>> {
        let mut from = Reader {
            get,
            code,
            errors: Vec::new(),
        };
        let address = from.address(start);
        let format = from.format(address.as_ref())?;
        let (buffer_bytes, memory_bytes) = from.sizes();
        let output = from.output(start, format.0.extension, address.is_some());
        let dir = from.raw("FDR_DIR").map(|dir| start.join(dir.text));
        let settings = Settings {
            filter: from.text("FDR", Filter::parse),
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
                .text("FDR_MODE", |v| choice(v, &Mode::WORDS))
                .unwrap_or(Mode::Ring),
            clock: from
                .text("FDR_CLOCK", |v| choice(v, &Clock::WORDS))
                .unwrap_or(Clock::Rdtscp),
            log: from
                .text("FDR_LOG", |v| choice(v, &Log::WORDS))
                .unwrap_or(Log::Warn),
            panic: from
                .text("FDR_PANIC", |v| choice(v, &SWITCH))
                .unwrap_or(false),
            crash: from
                .text("FDR_CRASH", |v| choice(v, &SWITCH))
                .unwrap_or(true),
        };
        if from.errors.is_empty() {
            Ok(settings)
        } else {
            Err(from.errors)
        }
    }
}

impl Settings {
    /// Whether two are the same but for what is recorded.
    pub(crate) fn is_but_for_the_filter(&self, other: &Settings) -> bool {
        let filter = other.filter.clone();
        Settings {
            filter,
            ..self.clone()
        } == *other
    }
}

/// A line about each variable that begins like ours and is none of them: a mistyped one would
/// otherwise be ignored in silence.
pub(crate) fn unknown_variables(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let ours = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            name.starts_with("FDR_") && VARIABLES.iter().all(|known| known.0 != name)
        })
    };
    let warning = |name: OsString| {
        let nearest = nearest(VARIABLES.map(|known| known.0), &name.to_string_lossy(), 1);
        let nearest = nearest.first().copied().unwrap_or_default();
        format!(
            "{}: no such variable, ignored; the nearest is {nearest}",
            escaped(&name)
        )
    };
    names.filter(ours).map(warning).collect()
}

/// Takes values out of the environment and the code, and collects what is wrong with them.
struct Reader<'a, G> {
    get: G,
    code: &'a Config,
    errors: Vec<String>,
}

/// A value, and who said it.
struct Value {
    text: OsString,
    by_code: bool,
}

impl<G: Fn(&str) -> Option<OsString>> Reader<'_, G> {
    /// The environment wins.
    fn raw(&self, name: &str) -> Option<Value> {
        let set = (self.get)(name).filter(|value| !value.is_empty());
        let (text, by_code) = match set {
            Some(text) => (text, false),
            None => (self.code.get(name)?.clone(), true),
        };
        Some(Value { text, by_code })
    }

    /// The parsed value; `None` where it is unset or, with an error noted, invalid.
    fn text<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = self.raw(name)?;
        let parsed = match value.text.to_str() {
            Some(text) => parse(text.trim()),
            None => Err("not UTF-8".to_owned()),
        };
        parsed
            .map_err(|problem| self.refuse(name, &value, &problem))
            .ok()
    }

    fn refuse(&mut self, name: &str, value: &Value, problem: &str) {
        let shown = escaped(&value.text);
        let known = VARIABLES.iter().find(|known| known.0 == name);
        self.errors.push(match known.filter(|_| value.by_code) {
            Some((_, method)) => format!("Config::{method}({shown}): {problem}"),
            None => format!("{name}={shown}: {problem}"),
        });
    }

    fn address(&mut self, start: &Path) -> Option<Address> {
        let value = self.raw("FDR_OUT")?;
        let parsed = Address::parse(&value.text, start, Side::Program)?;
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
            match Output::parse(&value.text, start, extension) {
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
        let said = self.raw("FDR_BUFFER");
        if let (Some(buffer), Some(value)) = (buffer.filter(|&buffer| buffer > memory), said) {
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
