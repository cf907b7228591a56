//! What Trace Compass wants beside the trace, in files that CTF readers do not look at because their
//! names begin with a dot: names of functions, and calls that were open before the first event.
//!
//! - `.fdr-functions.txt`: a line `address T name` per function, as `nm` prints it; Trace Compass's
//!   symbol provider takes it ("Configure symbol providers"). Addresses are the functions' numbers.
//! - `.tc-states/org.eclipse.linuxtools.lttng2.ust.analysis.callstack.snapshot.json`: the state that
//!   Trace Compass's call stack analysis begins with (version 3 of its state provider).

use std::fmt::Write as _;
use std::io;

use crate::model::Function;
use crate::snapshot_json::{self, Attribute, Head, Value};

/// Name of the file of functions.
pub(super) const FUNCTIONS_FILE: &str = ".fdr-functions.txt";
/// Name of the analysis in Trace Compass, and of its file.
const ANALYSIS: &str = "org.eclipse.linuxtools.lttng2.ust.analysis.callstack";
/// Where the first state is.
pub(super) const STATE_FILE: &str =
    ".tc-states/org.eclipse.linuxtools.lttng2.ust.analysis.callstack.snapshot.json";
/// Version of that analysis.
const STATE_VERSION: u32 = 3;

/// The file of functions.
pub(super) fn map(functions: &[Function]) -> String {
    let mut text = String::new();
    for Function { id, name, .. } in functions {
        let _ = write!(text, "{:016x} T ", id.0);
        let name = name.chars();
        text.extend(name.map(|char| if char.is_control() { ' ' } else { char }));
        text.push('\n');
    }
    text
}

/// A thread that was in some calls already when its first event came.
pub(super) struct Inside {
    pub(super) process: i32,
    pub(super) thread: i32,
    /// As the events of the thread carry it.
    pub(super) comm: String,
    /// Functions, outermost first.
    pub(super) calls: Vec<u32>,
}

/// The first state. `start`: ns since 1970 (or of the clock, without an anchor) of the first event.
pub(super) fn state(threads: &[Inside], start: i64) -> io::Result<Vec<u8>> {
    let mut list = vec![(vec!["Processes".to_owned()], Value::Null)];
    let mut processes: Vec<i32> = threads.iter().map(|thread| thread.process).collect();
    processes.sort_unstable();
    processes.dedup();
    for process in processes {
        let path = vec!["Processes".to_owned(), process.to_string()];
        list.push((path.clone(), Value::Int(process.into())));
        for thread in threads.iter().filter(|thread| thread.process == process) {
            let mut path = path.clone();
            path.push(format!("{}-{}", thread.comm, thread.thread));
            list.push((path.clone(), Value::Long(thread.thread.into())));
            path.push("CallStack".to_owned());
            let depth = i64::try_from(thread.calls.len()).unwrap_or(0);
            list.push((path.clone(), Value::Int(depth)));
            for (level, call) in (1..=depth).zip(&thread.calls) {
                let path = path.iter().cloned().chain([level.to_string()]);
                list.push((path.collect(), Value::Long((*call).into())));
            }
        }
    }
    let head = Head {
        ssid: ANALYSIS,
        version: STATE_VERSION,
        time: start,
    };
    let attributes = list
        .into_iter()
        .map(|(path, value)| Attribute { path, start, value });
    let mut bytes = Vec::new();
    snapshot_json::write(&mut bytes, &head, attributes)?;
    Ok(bytes)
}
