//! Keys of processes, traces and functions, and the names of the folders of a trace. A key is made from the content of
//! a trace, never from its file. So the same trace has the same key in every format and under every name.

use chrono::DateTime;
use fdr_cli::fleet::TraceFigures;
use fdr_formats::TraceInfo;
use fdr_formats::identity::Part;
use sha2::{Digest, Sha256};

/// The keys of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Of its process.
    pub(crate) process: String,
    /// Of itself.
    pub(crate) trace: String,
    /// The name of its program, without a folder.
    pub(crate) program: String,
    /// The folder of its host.
    pub(crate) host: String,
    /// The day on which it ends, in UTC.
    pub(crate) date: String,
    /// Its first and last moment, in ns of the Unix epoch.
    pub(crate) window: Option<(i64, i64)>,
}

impl Keys {
    /// Of a trace, and the figures of all of it.
    pub(crate) fn new(info: &TraceInfo, figures: &TraceFigures) -> Keys {
        let trace = trace_key(info, figures);
        let program = info.program.rsplit('/').next().unwrap_or_default();
        let edges = figures.threads.iter().filter_map(|thread| thread.window);
        let first = edges.clone().map(|(first, _)| first).min();
        let last = edges.map(|(_, last)| last).max();
        let unix = |tick| info.clock.unix_nanos(tick).map(clamp);
        let end = info.end.max(last).and_then(unix);
        let window = first.or(info.start).and_then(unix).zip(end);
        let unix = window.map(|(_, end)| end);
        Keys {
            process: process_key(info).unwrap_or_else(|| trace.clone()),
            trace,
            program: program.to_owned(),
            host: folder_of(info.identity.get(Part::Host)),
            date: date_of(unix.unwrap_or(0)),
            window,
        }
    }
}

/// A time or a length of a trace, as the tables have it.
pub(crate) fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What tells processes of all hosts apart: boot, pid, and when the recorder began. `None`: the trace does not say it.
fn process_key(info: &TraceInfo) -> Option<String> {
    let boot = info.identity.get(Part::Boot);
    let (tick, unix) = info.clock.anchor?;
    let pid = info.process?;
    if boot.is_empty() {
        return None;
    }
    let mut hash = Hash::new("process");
    hash.text(boot);
    [pid, tick.0, unix]
        .into_iter()
        .for_each(|number| hash.number(number));
    Some(hash.end())
}

/// What tells traces apart: their process, and all that was counted of their threads and functions.
fn trace_key(info: &TraceInfo, figures: &TraceFigures) -> String {
    let mut hash = Hash::new("trace");
    hash.text(&process_key(info).unwrap_or_default());
    hash.text(info.identity.get(Part::Host));
    hash.text(&info.program);
    hash.text(&info.reason);
    for number in [info.dump, info.process, info.end.map(|end| end.0)] {
        hash.number(number.map_or(0, |number| number.wrapping_add(1)));
    }
    for thread in &figures.threads {
        let (first, last) = thread.window.unwrap_or_default();
        let parts = [thread.id, first.0, last.0, thread.records, thread.lost];
        parts.into_iter().for_each(|part| hash.number(part));
    }
    for row in figures
        .functions
        .iter()
        .chain(figures.whole.iter().flatten())
    {
        hash.text(&row.name);
        let parts = [row.calls, row.total_ns, row.self_ns];
        parts.into_iter().for_each(|part| hash.number(part));
    }
    hash.end()
}

/// The key of a function, the same in all traces of a program.
pub(crate) fn function_key(program: &str, name: &str, file: &str, line: u32) -> i64 {
    let mut hash = Hash::new("function");
    hash.text(program);
    hash.text(name);
    hash.text(file);
    hash.number(line.into());
    let bytes = hash.0.finalize();
    let first = bytes.first_chunk::<8>().copied().unwrap_or_default();
    i64::from_le_bytes(first)
}

/// Parts of a key, each with its length, so that no two lists of parts are the same bytes.
struct Hash(Sha256);

impl Hash {
    fn new(what: &str) -> Hash {
        let mut hash = Hash(Sha256::new());
        hash.text(what);
        hash
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text);
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    /// 128 bits of it.
    fn end(self) -> String {
        let bytes = self.0.finalize();
        bytes
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// The day of a moment, in UTC.
pub(crate) fn date_of(unix_nanos: i64) -> String {
    let date = DateTime::from_timestamp_nanos(unix_nanos);
    date.format("%Y-%m-%d").to_string()
}

/// A name that every file system, shell and engine takes as the value of a folder's key.
pub(crate) fn folder_of(host: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = host
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    match name.trim_start_matches('.') {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_plain() {
        assert_eq!(folder_of("db-7.example.org"), "db-7.example.org");
        assert_eq!(folder_of("a/../b c=d"), "a_.._b_c_d");
        assert_eq!(folder_of(".."), "unknown");
        assert_eq!(folder_of(""), "unknown");
    }

    #[test]
    fn days_are_of_utc() {
        assert_eq!(date_of(0), "1970-01-01");
        assert_eq!(date_of(1_700_000_000_000_000_000), "2023-11-14");
        assert_eq!(date_of(i64::MAX), "2262-04-11");
    }

    #[test]
    fn parts_of_keys_stay_separate() {
        assert_ne!(
            function_key("ab", "c", "", 1),
            function_key("a", "bc", "", 1)
        );
        assert_eq!(
            function_key("a", "b", "c", 1),
            function_key("a", "b", "c", 1)
        );
    }
}
