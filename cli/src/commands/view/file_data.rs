//! The JSON of a page that is a file. The page may be sent to anybody, so it is made of the fields that are named here.
//! This code reads the answer of a command, and writes only these fields of it. So a new field of a command's JSON does
//! not get into a page by itself. No text here is a value of an argument, a result, an error or an event.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::api::{Info, TraceOf, Words, notes};
use super::ending::Ending;
use super::task_details::TaskOf;
use super::viewed::ViewedTrace;
use crate::{trace, ui};

/// What stands before the pictures.
#[derive(Serialize)]
pub(super) struct Head<'a> {
    pub(super) info: Info<'a>,
    pub(super) reports: &'a [ReportOf],
    /// `None`: the calls have no times.
    pub(super) slow: &'a [Option<SlowCalls>],
    /// Calls of fewer ticks are joined.
    pub(super) joined: &'a [u64],
    pub(super) tasks: Vec<Vec<TaskOf>>,
    /// Polls of tasks that are left out.
    pub(super) left_out: Vec<usize>,
}

impl<'a> TraceOf<'a> {
    /// The facts of a trace for a page that is given to other people. The pattern below names each field. So after a
    /// field is added, the code does not compile until its author decides whether such a page has the field.
    pub(super) fn to_give_away(viewed: &'a ViewedTrace) -> TraceOf<'a> {
        let mut trace = TraceOf::new(viewed);
        let TraceOf {
            file,
            word,
            reason,
            ending,
            notes: all_notes,
            format: _,
            program: _,
            process: _,
            frequency: _,
            base: _,
            begin: _,
            end: _,
            begin_unix_ns: _,
            unix_error_ns: _,
            boot: _,
            has_times: _,
            has_states: _,
            has_cpus: _,
            progress: _,
            threads: _,
            functions: _,
            moments: _,
            counters: _,
            tasks: _,
        } = &mut trace;
        // Only the file's name is in the page. The folder's name belongs to the sender of the page.
        let name = viewed.path.file_name().unwrap_or_default();
        *file = name.to_string_lossy().into_owned();
        *word = ui::shell(Path::new(name));
        // A panic's message may have any value of the program.
        trace::word_of_reason(viewed.info()).clone_into(reason);
        ending.iter_mut().for_each(Ending::forget_texts);
        *all_notes = notes(viewed, Words::Own);
        trace
    }
}

/// Of `fdr report --json`, the figures of functions.
#[derive(Deserialize, Serialize)]
pub(super) struct ReportOf {
    duration_ns: u64,
    records: u64,
    functions: Vec<RowOf>,
    /// Of the whole run, if the trace has them.
    whole_run: Option<Vec<RowOf>>,
}

#[derive(Deserialize, Serialize)]
struct RowOf {
    id: u32,
    name: String,
    calls: u64,
    clipped: u64,
    total_ns: Option<u64>,
    self_ns: Option<u64>,
    min_ns: Option<u64>,
    mean_ns: Option<u64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// The calls and their causes from `fdr slow --json`, without the arguments and events of the program.
#[derive(Deserialize, Serialize)]
pub(super) struct SlowCalls {
    calls: Vec<SlowCall>,
    waits_for_work: Vec<IdleFunction>,
}

#[derive(Deserialize, Serialize)]
struct IdleFunction {
    function: String,
    calls: u64,
    total_ns: u64,
}

#[derive(Deserialize, Serialize)]
struct SlowCall {
    function: String,
    id: u32,
    thread: u64,
    since_first_ns: Option<u64>,
    total_ns: u64,
    slow_calls: Option<u64>,
    same_cause: Option<SameCause>,
    /// Names and times alone.
    sentence: String,
    usual: Usual,
    path: Vec<Step>,
    wait: Option<Wait>,
    meanwhile: Option<ConcurrentCall>,
}

#[derive(Deserialize, Serialize)]
struct SameCause {
    calls: u64,
    or_more: bool,
    total_ns: u64,
    times: u64,
}

#[derive(Deserialize, Serialize)]
struct Usual {
    p50_ns: u64,
}

#[derive(Deserialize, Serialize)]
struct Step {
    function: String,
    calls: u64,
    total_ns: u64,
    usual_ns: u64,
}

#[derive(Deserialize, Serialize)]
struct Wait {
    /// The name of the lock, the condition or the channel.
    waited_for: String,
    reason: String,
    waited_ns: u64,
    holder: Option<u64>,
    holder_function: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct ConcurrentCall {
    thread: u64,
    function: String,
}
