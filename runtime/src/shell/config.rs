//! The settings of a run, from its environment and its code. This file has the rules and defaults of both. It
//! must never read the environment itself, print, or accept a value that it does not understand. If a setting
//! is mistyped, a line says so, and nothing is recorded.

mod signal;
mod value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fdr_formats::duration;
use fdr_formats::filter::{Filter, nearest};
use fdr_formats::identity;
use fdr_formats::registry;
use fdr_formats::share;
use fdr_formats::size;
use fdr_formats::text;
use fdr_formats::trigger::{self, OutMost, Trigger};
use fdr_formats::writer::{Kind, Target};

use super::stream::{self, Address};
use crate::config::{Clock, Config, Log, Mode, VARIABLES};
use crate::dump::output::Output;
use value::{choice, escaped, size_text};

/// Bytes of a chunk of the ring. Rings and the budget are multiples of it.
const CHUNK: u64 = 64 << 10;

/// Bytes of the smallest ring: one chunk to write and one to read.
const SMALLEST_RING: u64 = 2 * CHUNK;

/// A way to write traces: one of [`registry::targets`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format(pub(crate) &'static Target);

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Format {}

/// The default of `FDR_BUDGET`, in millionths.
const DEFAULT_BUDGET: u64 = 100_000;

/// The default formats of files and of streams.
const DEFAULT_FORMAT: &str = "xray";
const DEFAULT_STREAM: &str = "htdump";

/// The default of `FDR_KEEP`, in the mode `ring`, if the format holds summaries of short calls.
const DEFAULT_KEEP: Duration = Duration::from_secs(10);

/// The default of `FDR_TRIGGER`.
const DEFAULT_TRIGGER: &str = "exit";

const SWITCH: [(&str, bool); 4] = [("1", true), ("0", false), ("on", true), ("off", false)];

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `FDR`: the functions that are recorded. `None` if it is not set.
    pub(crate) filter: Option<Filter>,
    /// `FDR_OUT`: the pattern of file names. The default pattern if `FDR_OUT` is an address.
    pub(crate) output: Output,
    /// `FDR_OUT`, if it is an address.
    pub(crate) address: Option<Address>,
    /// `FDR_FORMAT`.
    pub(crate) format: Format,
    /// Why the format is another one than the one that was asked for.
    pub(crate) format_note: Option<String>,
    /// `FDR_SIGNAL`: the number of the signal that dumps.
    pub(crate) signal: Option<i32>,
    /// `FDR_BUFFER`: the ring of one thread, a multiple of the chunk.
    pub(crate) buffer_bytes: u64,
    /// `FDR_MEMORY`: all rings together, a multiple of the chunk, and at least one ring.
    pub(crate) memory_bytes: u64,
    /// `FDR_KEEP`: the time that a full ring should hold. Zero: each call leaves its records.
    pub(crate) keep: Duration,
    /// `FDR_BUDGET`: how much of the CPU time recording may take, in millionths; 0 = no bound. `None` if it is not
    /// set.
    pub(crate) budget: Option<u64>,
    /// `FDR_SAMPLE`: one top-level call in so many is recorded. 1: each call.
    pub(crate) sample: u32,
    /// `FDR_SCHED`: whether the states of threads are recorded.
    pub(crate) sched: bool,
    /// `FDR_MODE`.
    pub(crate) mode: Mode,
    /// `FDR_CLOCK`.
    pub(crate) clock: Clock,
    /// `FDR_DIR`, absolute if the folder at start was. `None` = the folder of the output. If no trace is
    /// wanted, `None` means that the ring has no file.
    pub(crate) dir: Option<PathBuf>,
    /// `FDR_LOG`.
    pub(crate) log: Log,
    /// `FDR_PANIC`: whether a panic dumps.
    pub(crate) panic: bool,
    /// `FDR_CRASH`: whether a crash dumps.
    pub(crate) crash: bool,
    /// `FDR_TAGS`; empty if there are none.
    pub(crate) tags: String,
    /// `FDR_TRIGGER`.
    pub(crate) triggers: Vec<Trigger>,
    /// `FDR_OUT_MOST`.
    pub(crate) out_most: OutMost,
    /// `FDR_VERSION`. `None`: the program's own.
    pub(crate) version: Option<String>,
}

impl Settings {
    /// Reads every variable through `get`. If a variable is unset or empty, takes the value from the code.
    /// Relative paths count from `start`, the folder in which the program was started.
    ///
    /// # Errors
    /// One line per invalid value: the variable or the method, the value, and the accepted values.
    pub(crate) fn from(
        get: &dyn Fn(&str) -> Option<OsString>,
        code: &Config,
        start: &Path,
    ) -> Result<Settings, Vec<String>> {
        let mut from = Reader {
            get,
            code,
            errors: Vec::new(),
        };
        let address = from.address(start);
        let (format, format_note) = match from.left_out() {
            Some(problem) if address.is_none() => (from.default_format(false)?, Some(problem)),
            _ => (from.format(address.is_some())?, None),
        };
        let (buffer_bytes, memory_bytes) = from.sizes();
        let output = from.output(start, format.0.extension, address.is_some());
        let dir = from.raw("FDR_DIR").map(|dir| start.join(dir.text));
        let mode = from
            .text("FDR_MODE", |v| stream::check_mode(choice(v, &Mode::WORDS)?))
            .unwrap_or(Mode::Ring);
        let settings = Settings {
            filter: from.text("FDR", Filter::parse),
            // A ring file can't be put beside a device.
            dir: dir.or_else(|| output.is_device().then(|| start.to_owned())),
            output,
            address: address.flatten(),
            format,
            format_note,
            signal: from
                .text("FDR_SIGNAL", signal::parse)
                .unwrap_or(Some(libc::SIGUSR2)),
            buffer_bytes,
            memory_bytes,
            keep: from.text("FDR_KEEP", duration::parse).unwrap_or_else(|| {
                // A file of another format would lack the short calls, although nobody set `FDR_KEEP`.
                let is_told = mode == Mode::Ring && format.0.name == DEFAULT_FORMAT;
                if is_told {
                    DEFAULT_KEEP
                } else {
                    Duration::ZERO
                }
            }),
            budget: from.text("FDR_BUDGET", share::parse),
            sample: from.text("FDR_SAMPLE", share::parse_one_in).unwrap_or(1),
            sched: from
                .text("FDR_SCHED", |v| choice(v, &SWITCH))
                .unwrap_or(false),
            mode,
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
            tags: from
                .text("FDR_TAGS", identity::parse_tags)
                .unwrap_or_default(),
            triggers: from.triggers(mode),
            out_most: from
                .text("FDR_OUT_MOST", trigger::parse_out_most)
                .unwrap_or_default(),
            version: from.text("FDR_VERSION", identity::parse_version),
        };
        if from.errors.is_empty() {
            Ok(settings)
        } else {
            Err(from.errors)
        }
    }
}

impl Settings {
    /// Whether calls may leave no records. In the other modes each call leaves its records.
    pub(crate) fn keeps(&self) -> bool {
        !self.keep.is_zero() && self.mode == Mode::Ring
    }

    /// The part of the CPU time that recording may take, in millionths, and whether the budget also concerns functions
    /// that a person marked one by one. `None` if there is no budget.
    pub(crate) fn budget(&self) -> Option<(u64, bool)> {
        let share = self.budget.unwrap_or(DEFAULT_BUDGET);
        let has = self.keeps() && share > 0;
        has.then_some((share, self.budget.is_some()))
    }

    /// Whether two settings differ at most in the filter.
    pub(crate) fn is_but_for_the_filter(&self, other: &Settings) -> bool {
        // All fields are named, so none is forgotten.
        let Settings {
            filter: _,
            output,
            address,
            format,
            format_note,
            signal,
            buffer_bytes,
            memory_bytes,
            keep,
            budget,
            sample,
            sched,
            mode,
            clock,
            dir,
            log,
            panic,
            crash,
            tags,
            triggers,
            out_most,
            version,
        } = self;
        let numbers = (buffer_bytes, memory_bytes, signal, panic, crash);
        let words = (mode, clock, log, format);
        numbers
            == (
                &other.buffer_bytes,
                &other.memory_bytes,
                &other.signal,
                &other.panic,
                &other.crash,
            )
            && words == (&other.mode, &other.clock, &other.log, &other.format)
            && (keep, budget, sample) == (&other.keep, &other.budget, &other.sample)
            && sched == &other.sched
            && (tags, version) == (&other.tags, &other.version)
            && (triggers, out_most) == (&other.triggers, &other.out_most)
            && dir == &other.dir
            && format_note == &other.format_note
            && output == &other.output
            && address == &other.address
    }
}

/// Variables of the tool `fdr`. A user of the tool may have set them in every shell.
const OF_THE_TOOL: [&str; 1] = ["FDR_PAGER"];

/// One line about each variable whose name begins like ours and is unknown. Otherwise a mistyped variable would
/// be ignored in silence.
pub(crate) fn unknown_variables(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let ours = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            let is_known =
                VARIABLES.iter().any(|known| known.0 == name) || OF_THE_TOOL.contains(&name);
            name.starts_with("FDR_") && !is_known
        })
    };
    let warning = |name: OsString| {
        let nearest = nearest(&VARIABLES.map(|known| known.0), &name.to_string_lossy(), 1);
        let nearest = nearest.first().copied().unwrap_or_default();
        format!(
            "{}: no such variable, ignored; the nearest is {nearest}",
            escaped(&name)
        )
    };
    names.filter(ours).map(warning).collect()
}

/// Reads values from the environment and the code, and collects their errors.
struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<OsString>,
    code: &'a Config,
    errors: Vec<String>,
}

/// A value, and the place that it comes from.
struct Value {
    text: OsString,
    by_code: bool,
}

impl Value {
    /// Who said it, and what.
    fn origin(&self, name: &str) -> String {
        let shown = escaped(&self.text);
        let known = VARIABLES.iter().find(|known| known.0 == name);
        match known.filter(|_| self.by_code) {
            Some((_, method)) => format!("Config::{method}({shown})"),
            None => format!("{name}={shown}"),
        }
    }
}

impl Reader<'_> {
    /// The value of the environment, otherwise the value of the code.
    #[inline(never)]
    fn raw(&self, name: &str) -> Option<Value> {
        let set = (self.get)(name).filter(|value| !value.is_empty());
        let (text, by_code) = match set {
            Some(text) => (text, false),
            None => (self.code.get(name)?.clone(), true),
        };
        Some(Value { text, by_code })
    }

    /// The parsed value. `None` if it is unset, or if it is invalid and the error is noted.
    fn text<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let mut parsed = None;
        self.parse(name, &mut |text| {
            parsed = Some(parse(text)?);
            Ok(())
        });
        parsed
    }

    /// The part of it that is the same for all types.
    fn parse(&mut self, name: &str, parse: &mut dyn FnMut(&str) -> Result<(), String>) {
        let Some(value) = self.raw(name) else { return };
        let parsed = match value.text.to_str() {
            Some(text) => parse(text.trim()),
            None => Err("not UTF-8".to_owned()),
        };
        if let Err(problem) = parsed {
            self.refuse(name, &value, &problem);
        }
    }

    #[inline(never)]
    fn refuse(&mut self, name: &str, value: &Value, problem: &str) {
        self.errors
            .push(format!("{}: {problem}", value.origin(name)));
    }

    /// The triggers. A stream hands over all records, so it has none.
    fn triggers(&mut self, mode: Mode) -> Vec<Trigger> {
        let parse = |text: &str| match mode {
            Mode::Stream => {
                Err("FDR_MODE=stream hands over all records, and no trigger dumps".to_owned())
            }
            _ => trigger::parse(text),
        };
        let default = || trigger::parse(DEFAULT_TRIGGER).unwrap_or_default();
        self.text("FDR_TRIGGER", parse).unwrap_or_else(default)
    }

    /// `None` if `FDR_OUT` is no address. After an error it is an address and not a file's name: `Some(None)`.
    fn address(&mut self, start: &Path) -> Option<Option<Address>> {
        let value = self.raw("FDR_OUT")?;
        let parsed = stream::parse(&value.text, start)?;
        let noted = parsed.map_err(|problem| self.refuse("FDR_OUT", &value, &problem));
        Some(noted.ok())
    }

    /// The format. The error says that this build has no format that fits.
    fn format(&mut self, is_sent: bool) -> Result<Format, Vec<String>> {
        let fits = |target: &Target| !is_sent || target.kind == Kind::Stream;
        let refuse = |why: &str, fits: &dyn Fn(&Target) -> bool| {
            let mut accepted = String::new();
            for target in registry::targets().filter(|&target| fits(target)) {
                text::append(&mut accepted, ", ", target.name);
            }
            Err(format!("{why}accepted are {accepted}"))
        };
        let parse = |text: &str| {
            if let Some(feature) = registry::missing_feature(text) {
                let why = format!(
                    "this program has no such format: build it with the feature `{feature}` of fdr; "
                );
                return refuse(&why, &fits);
            }
            match registry::targets().find(|target| text::same_word(target.name, text)) {
                Some(target) if fits(target) => Ok(Format(target)),
                Some(_) => refuse("can't be sent as a stream, which FDR_OUT asks for; ", &fits),
                None => refuse("", &|_| true),
            }
        };
        if let Some(format) = self.text("FDR_FORMAT", parse) {
            return Ok(format);
        }
        self.default_format(is_sent)
    }

    /// What is said where the format that was asked for is of a feature that this build does not have.
    fn left_out(&self) -> Option<String> {
        let value = self.raw("FDR_FORMAT")?;
        let name = value.text.to_str()?.trim().to_ascii_lowercase();
        let feature = registry::missing_feature(&name)?;
        Some(format!(
            "{}: this program has no such format, and writes {DEFAULT_FORMAT}: use `fdr convert --to {name}`, or \
             build it with the feature `{feature}` of fdr",
            value.origin("FDR_FORMAT")
        ))
    }

    fn default_format(&self, is_sent: bool) -> Result<Format, Vec<String>> {
        let fits = |target: &&Target| !is_sent || target.kind == Kind::Stream;
        let default = if is_sent {
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

    /// `FDR_BUFFER` and `FDR_MEMORY`, which must agree.
    fn sizes(&mut self) -> (u64, u64) {
        let ring = |text: &str| match size::parse(text)? {
            bytes if bytes < SMALLEST_RING => Err("too small; the least is 128K".to_owned()),
            bytes => Ok(bytes),
        };
        let buffer = self.text("FDR_BUFFER", |text| {
            ring(text)?
                .checked_next_multiple_of(CHUNK)
                .ok_or_else(size::too_large)
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
        // If only a small budget is set, the ring is made smaller. There is no error about the unset variable.
        (buffer.unwrap_or_else(|| memory.min(4 << 20)), memory)
    }
}

#[cfg(test)]
mod tests;
