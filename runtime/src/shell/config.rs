//! The settings of a run, from its environment and its code. This file has the rules and defaults of both. If a setting
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
use fdr_formats::text::{self, owned};
use fdr_formats::trigger::{self, OutMost, Trigger};
use fdr_formats::writer::Target;

use super::address::{self, Address};
use super::cargo::folder_for_traces;
use crate::config::{Clock, Config, Log, Mode, VARIABLES};
use crate::dump::output::Output;
use value::{choice, escaped, format_of, ring_size, size_text};

/// Bytes of a chunk of the ring. Rings and the budget are multiples of it.
const CHUNK: u64 = 64 << 10;

/// Bytes of the smallest ring: one chunk to write and one to read.
const MIN_RING: u64 = 2 * CHUNK;

/// A way to write traces: one of [`registry::recorded`].
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
const DEFAULT_FORMAT: &Target = &fdr_formats::xray::FORMAT.targets[0];
const DEFAULT_STREAM: &Target = &fdr_formats::htdump::FORMAT.targets[0];

/// The default of `FDR_KEEP`, in the mode `ring`, if the format holds summaries of short calls.
const DEFAULT_KEEP: Duration = Duration::from_secs(10);

/// The default of `FDR_TRIGGER`.
const DEFAULT_TRIGGER: &str = "exit, int, term";

const SWITCH: [(&str, bool); 4] = [("1", true), ("0", false), ("on", true), ("off", false)];

/// `FDR_SCHED`: whether the states of threads are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sched {
    Never,
    /// Before `main`, and as long as the process lives.
    Always,
    /// A short time after the start, unless they cost too much.
    Auto,
}

const SCHED: [(&str, Sched); 5] = [
    ("1", Sched::Always),
    ("0", Sched::Never),
    ("on", Sched::Always),
    ("off", Sched::Never),
    ("auto", Sched::Auto),
];

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
    /// The reason if the recorder writes another format than the configured one.
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
    /// `FDR_SCHED`.
    pub(crate) sched: Sched,
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
    pub(crate) out_most: Option<OutMost>,
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
    ) -> Result<Box<Settings>, Vec<String>> {
        let mut from = Reader {
            get,
            code,
            errors: Vec::new(),
            value: Value::default(),
        };
        let address = from.address(start);
        let is_sent = address.is_some();
        let note = from.converted().filter(|_| !is_sent);
        let format = match note {
            Some(_) => default_format(false),
            None => from.format(is_sent),
        };
        let mode = |text: &str| address::check_mode(choice(text, &Mode::WORDS)?);
        let mode = from.text("FDR_MODE", mode).unwrap_or(Mode::Ring);
        let mut settings = Box::new(Settings::defaults(start, format, mode));
        settings.address = address.flatten();
        settings.format_note = note;
        if !is_sent {
            from.output(&mut settings.output, start, format.0.extension);
        }
        from.sizes(&mut settings);
        settings.dir = from.raw("FDR_DIR").map(|dir| start.join(dir.text));
        if settings.dir.is_none() && settings.output.is_device() {
            // A ring file can't be put beside a device.
            settings.dir = Some(start.to_owned());
        }
        settings.filter = from.text("FDR", Filter::parse);
        from.set("FDR_SIGNAL", &mut settings.signal, signal::parse);
        from.set("FDR_KEEP", &mut settings.keep, duration::parse);
        settings.budget = from.text("FDR_BUDGET", share::parse);
        from.set("FDR_SCHED", &mut settings.sched, |text| {
            choice(text, &SCHED)
        });
        let clock = |text: &str| choice(text, &Clock::WORDS);
        from.set("FDR_CLOCK", &mut settings.clock, clock);
        let log = |text: &str| choice(text, &Log::WORDS);
        from.set("FDR_LOG", &mut settings.log, log);
        from.switch("FDR_PANIC", &mut settings.panic);
        from.switch("FDR_CRASH", &mut settings.crash);
        from.set("FDR_TAGS", &mut settings.tags, identity::parse_tags);
        let triggers = match mode {
            Mode::Stream => |_: &str| {
                Err(owned(
                    "FDR_MODE=stream hands over all records, and no trigger dumps",
                ))
            },
            _ => trigger::parse,
        };
        from.set("FDR_TRIGGER", &mut settings.triggers, triggers);
        settings.out_most = from.text("FDR_OUT_MOST", trigger::parse_out_most);
        settings.version = from.text("FDR_VERSION", identity::parse_version);
        if from.errors.is_empty() {
            Ok(settings)
        } else {
            Err(from.errors)
        }
    }
}

impl Settings {
    /// The defaults for this format and this mode.
    fn defaults(start: &Path, format: Format, mode: Mode) -> Settings {
        // A file of another format would lack the short calls, although the user did not ask for that by `FDR_KEEP`.
        let keeps = mode == Mode::Ring && format == default_format(false);
        Settings {
            filter: None,
            output: Output::default_in(start, format.0.extension),
            address: None,
            format,
            format_note: None,
            signal: Some(libc::SIGUSR2),
            buffer_bytes: 4 << 20,
            memory_bytes: 1 << 30,
            keep: if keeps { DEFAULT_KEEP } else { Duration::ZERO },
            budget: None,
            sched: Sched::Auto,
            mode,
            clock: Clock::Rdtscp,
            dir: None,
            log: Log::Warn,
            panic: false,
            crash: true,
            tags: String::new(),
            triggers: trigger::parse(DEFAULT_TRIGGER).unwrap_or_default(),
            out_most: None,
            version: None,
        }
    }

    /// Whether calls may leave no records. In the other modes each call leaves its records.
    pub(crate) fn keeps(&self) -> bool {
        !self.keep.is_zero() && self.mode == Mode::Ring
    }

    /// Whether the ring needs a place for the states of threads.
    pub(crate) fn may_have_states(&self) -> bool {
        match self.sched {
            Sched::Never => false,
            Sched::Always => true,
            Sched::Auto => self.mode != Mode::Stream && self.format.0.name.starts_with("xray"),
        }
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
            && (keep, budget) == (&other.keep, &other.budget)
            && sched == &other.sched
            && (tags, version) == (&other.tags, &other.version)
            && (triggers, out_most) == (&other.triggers, &other.out_most)
            && dir.as_deref().map(Path::as_os_str) == other.dir.as_deref().map(Path::as_os_str)
            && format_note == &other.format_note
            && output == &other.output
            && address == &other.address
    }
}

fn default_format(is_sent: bool) -> Format {
    match is_sent {
        true => Format(DEFAULT_STREAM),
        false => Format(DEFAULT_FORMAT),
    }
}

/// A variable of the tool `fdr`. A user of the tool may have set it in every shell.
const OF_THE_TOOL: &str = "FDR_PAGER";

/// One line about each variable whose name begins like ours and is unknown. Otherwise a mistyped variable would
/// be ignored in silence.
pub(crate) fn unknown_variables(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut warnings = Vec::new();
    for name in names {
        let text = name.to_string_lossy();
        let is_known = method_of(&text).is_some() || text == OF_THE_TOOL;
        if !text.starts_with("FDR_") || is_known {
            continue;
        }
        let mut known = Vec::new();
        VARIABLES.iter().for_each(|variable| known.push(variable.0));
        let nearest = nearest(&known, &text, 1);
        let nearest = nearest.first().copied().unwrap_or_default();
        warnings.push(format!(
            "{}: no such variable, ignored; the nearest is {nearest}",
            escaped(&name)
        ));
    }
    warnings
}

/// The method of `Config` that sets a variable.
#[inline(never)]
fn method_of(name: &str) -> Option<&'static str> {
    let found = VARIABLES.iter().find(|known| known.0 == name)?;
    Some(found.1)
}

/// Reads values from the environment and the code, and collects their errors.
struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<OsString>,
    code: &'a Config,
    errors: Vec<String>,
    /// The value that was read last.
    value: Value,
}

/// A value, and the place that it comes from.
#[derive(Default)]
struct Value {
    text: OsString,
    by_code: bool,
}

impl Value {
    #[inline(never)]
    fn as_text(&self) -> &str {
        text::trimmed(self.text.to_str().unwrap_or_default())
    }

    /// The source of the value and its text, such as `FDR_MODE=full`.
    fn origin(&self, name: &str) -> String {
        let shown = escaped(&self.text);
        match method_of(name).filter(|_| self.by_code) {
            Some(method) => format!("Config::{method}({shown})"),
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
    fn text<T>(&mut self, name: &str, parse: fn(&str) -> Result<T, String>) -> Option<T> {
        if !self.begin(name) {
            return None;
        }
        match parse(self.value.as_text()) {
            Ok(parsed) => Some(parsed),
            Err(problem) => {
                self.end(name, problem);
                None
            }
        }
    }

    /// Reads a value into its place here, so that the code of each type need not drop it. False if it is unset, or if
    /// it is no text and the error is noted.
    #[inline(never)]
    fn begin(&mut self, name: &str) -> bool {
        let Some(value) = self.raw(name) else {
            return false;
        };
        self.value = value;
        let is_text = self.value.text.to_str().is_some();
        if !is_text {
            self.end(name, owned("not UTF-8"));
        }
        is_text
    }

    /// Notes an error of the value that was read last.
    #[inline(never)]
    fn end(&mut self, name: &str, problem: String) {
        let value = core::mem::take(&mut self.value);
        self.refuse(name, &value, &problem);
    }

    /// Puts the parsed value into its place, if there is one.
    fn set<T>(&mut self, name: &str, place: &mut T, parse: fn(&str) -> Result<T, String>) {
        if let Some(parsed) = self.text(name, parse) {
            *place = parsed;
        }
    }

    #[inline(never)]
    fn switch(&mut self, name: &str, place: &mut bool) {
        self.set(name, place, |text| choice(text, &SWITCH));
    }

    #[inline(never)]
    fn refuse(&mut self, name: &str, value: &Value, problem: &str) {
        self.errors
            .push(format!("{}: {problem}", value.origin(name)));
    }

    /// `None` if `FDR_OUT` is no address. After an error it is an address and not a file's name: `Some(None)`.
    fn address(&mut self, start: &Path) -> Option<Option<Address>> {
        let value = self.raw("FDR_OUT")?;
        let parsed = address::parse(&value.text, start)?;
        let noted = parsed.map_err(|problem| self.refuse("FDR_OUT", &value, &problem));
        Some(noted.ok())
    }

    /// The format.
    fn format(&mut self, is_sent: bool) -> Format {
        let parse = match is_sent {
            true => |text: &str| format_of(text, true),
            false => |text: &str| format_of(text, false),
        };
        let format = self.text("FDR_FORMAT", parse);
        format.unwrap_or_else(|| default_format(is_sent))
    }

    /// The warning if only `fdr convert` writes the format that the user asked for.
    fn converted(&self) -> Option<String> {
        let value = self.raw("FDR_FORMAT")?;
        let name = text::trimmed(value.text.to_str()?).to_ascii_lowercase();
        registry::is_converted(&name).then(|| {
            format!(
                "{}: the recorder has no such format, and writes {}; `fdr convert --to {name}` makes it of the trace",
                value.origin("FDR_FORMAT"),
                DEFAULT_FORMAT.name
            )
        })
    }

    fn output(&mut self, output: &mut Output, start: &Path, extension: &str) {
        let Some(value) = self.raw("FDR_OUT") else {
            if let Some(folder) = folder_for_traces(self.get, start) {
                *output = Output::default_in_new(&folder, extension);
            }
            return;
        };
        match Output::parse(&value.text, start, extension) {
            Ok(parsed) => *output = parsed,
            Err(problem) => self.refuse("FDR_OUT", &value, &problem),
        }
    }

    /// `FDR_BUFFER` and `FDR_MEMORY`, which must agree.
    fn sizes(&mut self, settings: &mut Settings) {
        let buffer = self.text("FDR_BUFFER", |text| {
            let rounded = ring_size(text)?.checked_next_multiple_of(CHUNK);
            rounded.ok_or_else(size::too_large)
        });
        let whole_chunks = |text: &str| Ok(ring_size(text)? / CHUNK * CHUNK);
        self.set("FDR_MEMORY", &mut settings.memory_bytes, whole_chunks);
        let memory = settings.memory_bytes;
        let said = self.raw("FDR_BUFFER");
        if let (Some(buffer), Some(value)) = (buffer.filter(|&buffer| buffer > memory), said) {
            let (buffer, memory) = (size_text(buffer), size_text(memory));
            let problem = format!("a ring of {buffer} exceeds the budget FDR_MEMORY, {memory}");
            self.refuse("FDR_BUFFER", &value, &problem);
        }
        // If only a small budget is set, the ring is made smaller. There is no error about the unset variable.
        settings.buffer_bytes = buffer.unwrap_or(settings.buffer_bytes.min(memory));
    }
}

#[cfg(test)]
mod tests;
