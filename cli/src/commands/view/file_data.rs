//! The JSON of a page that is a file. The page may be sent to anybody, so it is made of the fields that are named here. An
//! answer of a command is read, and only these fields of it are written again: a new field of a command's JSON does not get
//! into a page by itself. No text here is a value of an argument, a result, an error or an event.

use serde::{Deserialize, Serialize};

use super::api::Info;
use super::tasks::TaskOf;

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

/// Of `fdr slow --json`, the calls and their causes, without what the program said in them.
#[derive(Deserialize, Serialize)]
pub(super) struct SlowCalls {
    calls: Vec<SlowCall>,
}

#[derive(Deserialize, Serialize)]
struct SlowCall {
    function: String,
    id: u32,
    thread: u64,
    since_first_ns: Option<u64>,
    total_ns: u64,
    slow_calls: Option<u64>,
    /// Names and times alone.
    sentence: String,
    usual: Usual,
    path: Vec<Step>,
    wait: Option<Wait>,
    meanwhile: Option<Meanwhile>,
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
struct Meanwhile {
    thread: u64,
    function: String,
}
