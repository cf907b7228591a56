//! How the tool talks to people: harmless text, durations and counts with units, progress, errors.
//!
//! Everything that a trace says (names, files, payloads) passes [`clean`] before it is printed for a person.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, Write};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::pager;
pub(crate) use crate::wrap::{error_columns, wrap};
use anyhow::Context;
pub(crate) use fdr_formats::text::{clean, is_unsafe};
use fdr_formats::utc::Utc;

/// A path as it may be printed. A trace that is called `-` is standard input; what goes to standard output has no path.
pub(crate) fn path(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return "standard input".to_owned();
    }
    clean(&path.to_string_lossy()).into_owned()
}

/// A path as a shell takes it.
pub(crate) fn shell(file: &Path) -> String {
    let text = path(file);
    let plain = |character: char| character.is_alphanumeric() || "/._-+,:@%".contains(character);
    if !text.is_empty() && text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A duration with a unit and about four digits: `7 ns`, `12.34 µs`, `1.235 s`.
pub(crate) fn duration(nanos: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    for (unit, name) in UNITS {
        // From 999.95 of the next smaller unit on, that one would be rounded up to 1000.0.
        if nanos >= unit - unit / 20_000 {
            let value = nanos as f64 / unit as f64;
            let digits = if value >= 99.995 {
                1
            } else if value >= 9.9995 {
                2
            } else {
                3
            };
            return format!("{value:.digits$} {name}");
        }
    }
    format!("{nanos} ns")
}

/// A count with separators: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count of things: `1 call`, `2 calls`.
pub(crate) fn things(number: u64, thing: &str) -> String {
    format!(
        "{} {thing}{}",
        count(number),
        if number == 1 { "" } else { "s" }
    )
}

/// A count in front of its plural: `2 functions that are untimed`. If the count is one, the first of the first three words
/// that ends in `s` loses that `s`: `1 function that is untimed`.
pub(crate) fn count_of(number: u64, what: &str) -> String {
    let what = match number {
        1 => what.replacen("entries and exits", "entry or exit", 1),
        _ => what.to_owned(),
    };
    let mut text = format!("{} {what}", count(number));
    let noun = what
        .split(' ')
        .take(3)
        .find(|word| word.trim_end_matches(':').ends_with('s'));
    if let (1, Some(noun)) = (number, noun) {
        let one = match noun.strip_suffix("s:") {
            Some(one) => format!("{one}:"),
            None => noun.trim_end_matches('s').to_owned(),
        };
        text = text
            .replacen(noun, &one, 1)
            .replacen(" that are ", " that is ", 1)
            .replacen(" that begin ", " that begins ", 1);
    }
    text
}

/// The first three of some things in words, and how many more there are: `a; b; c (and 2 more)`.
pub(crate) fn first_of<T>(all: &[T], in_words: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = all.iter().take(3).map(in_words).collect();
    let more = match all.len() - shown.len() {
        0 => String::new(),
        more => format!(" (and {} more)", count(more as u64)),
    };
    format!("{}{more}", shown.join("; "))
}

/// A size with a unit: `512 B`, `3.2 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// A point in time as ISO 8601 has it, to the microsecond: `2026-11-20T13:55:01.000250Z`.
pub(crate) fn utc(unix_nanos: u64) -> String {
    let (seconds, nanos) = (unix_nanos / 1_000_000_000, unix_nanos % 1_000_000_000);
    let micros = nanos / 1000;
    format!("{}.{micros:06}Z", Utc::from_unix(seconds))
}

/// The text, with at most `most` characters. A longer text loses its middle. More of the end stays than of the front,
/// because the end of a function's name says more.
pub(crate) fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= most {
        return Cow::Borrowed(text);
    }
    let kept = most.saturating_sub(1);
    let head = kept * 2 / 5;
    let front = text.chars().take(head);
    let end = text.chars().skip(length - (kept - head));
    Cow::Owned(front.chain(['…']).chain(end).collect())
}

/// The text, with at most `most` characters. A longer text loses its end.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.chars().count() <= most {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(most.saturating_sub(1));
    Cow::Owned(kept.chain(['…']).collect())
}

/// Removes parts from the beginning of a function's name until it has at most `most` characters, if possible.
pub(crate) fn last_parts(name: &str, most: usize) -> &str {
    let mut rest = name;
    // The parts of a generic argument or of a trait mean nothing without the rest.
    while rest.chars().count() > most
        && let Some((first, last)) = rest.split_once("::")
        && !first.contains(['<', ' ', '('])
    {
        rest = last;
    }
    rest
}

/// Columns of the terminal on standard output; `None` where that is no terminal.
pub(crate) fn columns() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width.0)).filter(|&width| width > 0)
}

/// Whether something is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On terminals, unless the environment says otherwise
    #[default]
    Auto,
    /// Wherever it goes
    Always,
    /// Nowhere
    Never,
}

/// 0: as the output is; 1: always; 2: never.
static COLOUR: AtomicUsize = AtomicUsize::new(0);

/// Sets whether output is coloured.
pub(crate) fn set_colour(colour: Colour) {
    // Relaxed: a number by itself.
    COLOUR.store(colour as usize, Ordering::Relaxed);
}

/// Whether standard output is coloured. `--color` decides first, then NO_COLOR, CLICOLOR_FORCE and TERM. Without any of
/// these, a terminal gets colours.
pub(crate) fn colour() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match COLOUR.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ if set("NO_COLOR").is_some() => false,
        _ if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
        _ if set("TERM").is_some_and(|term| term == "dumb") => false,
        _ => io::stdout().is_terminal(),
    }
}

/// Wraps facts with ` · ` between them into lines of at most `width` characters. A fact of at most half a line is not
/// divided.
pub(crate) fn wrap_facts(text: &str, width: usize, indent: usize) -> String {
    const JOINED: &str = "\u{a0}";
    let joined = |fact: &str| match fact.chars().count() * 2 <= width {
        true => fact.replace(' ', JOINED),
        false => fact.to_owned(),
    };
    let facts: Vec<String> = text.split(" · ").map(joined).collect();
    wrap(&facts.join("\u{a0}· "), width, indent).replace(JOINED, " ")
}

/// Text for standard output: wrapped where that is a terminal.
pub(crate) fn paragraph(text: &str, indent: usize) -> String {
    match columns() {
        Some(width) => wrap(text, width, indent),
        None => text.to_owned(),
    }
}

/// One line on stderr; a terminal gets it in lines that fit. A stderr that is gone is no reason to fail.
pub(crate) fn complain(line: &str) {
    let line = format!("fdr: {}", clean(line));
    let line = match error_columns() {
        Some(width) => wrap(&line, width, 5),
        None => line,
    };
    let _ = writeln!(io::stderr(), "{line}");
}

/// A number for an option of which there must be one at least.
pub(crate) fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse() {
        Ok(number) => NonZeroUsize::new(number)
            .ok_or_else(|| "it must be 1 or more; leave the option out for all".into()),
        Err(_) => Err("not a whole number from 1 on".into()),
    }
}

/// A number of threads that may work.
pub(crate) fn jobs_of(text: &str) -> Result<NonZeroUsize, &'static str> {
    let number = text.parse().ok().and_then(NonZeroUsize::new);
    number.ok_or("not a number of threads from 1 on; leave the option out for one per core")
}

/// The value of `--jobs`; 0: the option is not given.
static JOBS: AtomicUsize = AtomicUsize::new(0);

/// Sets how many threads may work.
pub(crate) fn set_jobs(jobs: Option<NonZeroUsize>) {
    // Relaxed: a number by itself.
    JOBS.store(jobs.map_or(0, NonZeroUsize::get), Ordering::Relaxed);
}

/// How many threads are to work: as asked for, or one per core.
pub(crate) fn jobs() -> usize {
    NonZeroUsize::new(JOBS.load(Ordering::Relaxed))
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get)
}

/// Standard output. Everything that a command prints goes through this type. It notes that the reader has closed the
/// pipe, even if a caller drops the error.
#[derive(Debug)]
pub(crate) struct StandardOutput(File);

/// Whether standard output was a pipe or a socket whose reader went away.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Whether the reader of our output has closed its end. That is no error: a reader such as `head` ends early.
pub(crate) fn is_reader_gone() -> bool {
    READER_GONE.load(Ordering::Relaxed)
}

impl StandardOutput {
    /// A handle of its own.
    ///
    /// # Errors
    /// Where it is closed, or there are too many files.
    pub(crate) fn new() -> anyhow::Result<StandardOutput> {
        if let Some(pager) = pager::input() {
            return Ok(StandardOutput(pager.into()));
        }
        let file = io::stdout().as_fd().try_clone_to_owned();
        Ok(StandardOutput(file.context(STANDARD_OUTPUT)?.into()))
    }

    /// Prints a file from its beginning.
    ///
    /// # Errors
    /// Where the file can't be read, or not be written out.
    pub(crate) fn print(&mut self, file: &mut File) -> anyhow::Result<()> {
        file.rewind().context(STANDARD_OUTPUT)?;
        let copied = io::copy(file, &mut self.0).map_err(noted);
        copied.context(STANDARD_OUTPUT)?;
        Ok(())
    }
}

const STANDARD_OUTPUT: &str = "standard output";

fn noted(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        READER_GONE.store(true, Ordering::Relaxed);
    }
    error
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(noted)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(noted)
    }
}

/// Standard output, buffered, for one whole answer. What can't be written is an error.
pub(crate) fn print(
    answer: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, StandardOutput::new()?);
    let done = answer(&mut out).and_then(|()| Ok(out.flush()?));
    done.map_err(|error| match error.is::<io::Error>() {
        true => error.context(STANDARD_OUTPUT),
        false => error,
    })
}

/// A size in bytes: a number, and `K`, `M` or `G`.
///
/// # Errors
/// What is accepted.
pub(crate) fn size_of(text: &str) -> Result<u64, &'static str> {
    const MALFORMED: &str = "not a size; accepted are bytes, or a number with K, M or G, as 4M";
    let text = text.trim();
    let (digits, shift) = match text.as_bytes() {
        [digits @ .., b'k' | b'K'] => (digits, 10),
        [digits @ .., b'm' | b'M'] => (digits, 20),
        [digits @ .., b'g' | b'G'] => (digits, 30),
        digits => (digits, 0),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(MALFORMED);
    }
    let number: Option<u64> = text.get(..digits.len()).and_then(|text| text.parse().ok());
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|&bytes| i64::try_from(bytes).is_ok())
        .ok_or("too large; it must be below 8 EiB")
}

mod progress;

pub(crate) use progress::{Arrivals, Progress, drive, drive_on};

#[cfg(test)]
mod tests;
