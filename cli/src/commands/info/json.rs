//! `fdr info --json`: what a trace says of itself, for scripts. The shape is in docs/json.md.

use std::io::Write;
use std::path::Path;

use fdr_formats::{Function, Source, Ticks, TraceInfo};
use serde::Serialize;

use super::states::ScheduleCounts;
use crate::report::json::{self, Clock, Identity, Missing, OpenCall, Problem, Trigger};
use crate::report::moments::{Moment, Moments};
use crate::report::rows::OpenRow;
use crate::tally::{Marks, Tally, ThreadTally};
use crate::{clock, output_file, trace};

#[derive(Serialize)]
struct Document<'a> {
    file: &'a str,
    bytes: u64,
    format: &'a str,
    program: &'a str,
    process: Option<u64>,
    identity: Identity<'a>,
    reason: &'a str,
    dump: Option<u64>,
    clock: Clock<'a>,
    has_times: bool,
    begin_ns: Option<u64>,
    begin_unix_ns: Option<u64>,
    duration_ns: Option<u64>,
    records: u64,
    synthetic_records: u64,
    others: OtherCounts,
    states: Option<ScheduleCounts>,
    threads: Vec<Thread<'a>>,
    function_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<Vec<OneFunction<'a>>>,
    failed_thread: Option<u64>,
    trigger: Option<Trigger<'a>>,
    open_calls: Vec<OpenCall<'a>>,
    marks: Vec<Moment>,
    earlier_marks: u64,
    missing: Missing,
    diagnostics: Vec<Problem<'a>>,
    diagnostics_not_shown: u64,
    clock_notes: Vec<String>,
}

/// Everything that is no call, by its kind.
#[derive(Serialize)]
struct OtherCounts {
    cpu_changes: u64,
    wall_times: u64,
    arguments: u64,
    custom_events: u64,
    typed_events: u64,
    notes: u64,
    events: u64,
    counter_samples: u64,
    spans_with_fields: u64,
    noted_arguments: u64,
    task_changes: u64,
    thread_state_changes: u64,
    gaps: u64,
    lost_records: u64,
    clock_breaks: u64,
}

#[derive(Serialize)]
struct Thread<'a> {
    id: u64,
    name: &'a str,
    process: Option<u64>,
    begin_ns: Option<u64>,
    duration_ns: Option<u64>,
    records: u64,
    synthetic_records: u64,
    recorded: Option<u64>,
    readable: Option<u64>,
    overwritten: Option<u64>,
    dropped: Option<u64>,
    summarised: Option<u64>,
}

#[derive(Serialize)]
struct OneFunction<'a> {
    id: u32,
    name: &'a str,
    file: &'a str,
    line: u32,
    untimed: bool,
}

/// Writes all of it; the functions where they were asked for.
pub(super) fn write(
    out: &mut dyn Write,
    file: &Path,
    source: &dyn Source,
    tally: &Tally,
    open: &[OpenRow],
    functions: bool,
) -> anyhow::Result<()> {
    let info = source.info();
    let nanos = |ticks: Ticks| info.clock.nanos(ticks).0;
    let times = tally.times();
    let (first, last) = (times.map(|times| times.0), times.map(|times| times.1));
    let begin = first.or(info.start);
    let has_times = !trace::is_timeless(info);
    let moments = Moments::from_info(info, first);
    let file = file.to_path_buf();
    let document = Document {
        file: &file.to_string_lossy(),
        bytes: output_file::size(&file),
        format: &info.format,
        program: &info.program,
        process: info.process,
        identity: Identity::new(&info.identity),
        reason: &info.reason,
        dump: info.dump,
        clock: Clock::new(info),
        has_times,
        begin_ns: begin.map(nanos),
        begin_unix_ns: begin.and_then(|begin| info.clock.unix_nanos(begin)),
        duration_ns: first
            .zip(last)
            .filter(|_| has_times)
            .map(|(first, last)| nanos(last.since(first))),
        records: tally.records(),
        synthetic_records: tally.synthetic(),
        states: ScheduleCounts::new(info, begin.filter(|_| has_times)),
        others: OtherCounts::new(&tally.marks()),
        threads: tally.threads().map(|seen| thread(seen, info)).collect(),
        function_count: info.called().count(),
        functions: functions.then(|| info.called().map(one_function).collect()),
        failed_thread: info.failed_thread().map(|thread| thread.0),
        trigger: info.trigger().map(Trigger::new),
        open_calls: open.iter().map(OpenCall::new).collect(),
        marks: moments.list,
        earlier_marks: moments.earlier,
        missing: Missing::new(&info.missing),
        diagnostics: tally.diagnostics.iter().map(Problem::new).collect(),
        diagnostics_not_shown: tally.more_diagnostics,
        clock_notes: clock::notes(&info.clock),
    };
    json::print(out, &document)
}

fn one_function(function: &Function) -> OneFunction<'_> {
    OneFunction {
        id: function.id.0,
        name: &function.name,
        file: &function.file,
        line: function.line,
        untimed: function.untimed,
    }
}

impl OtherCounts {
    fn new(marks: &Marks) -> OtherCounts {
        OtherCounts {
            cpu_changes: marks.cpus,
            wall_times: marks.walls,
            arguments: marks.arguments,
            custom_events: marks.customs,
            typed_events: marks.typed,
            notes: marks.notes.count(),
            events: marks.notes.events,
            counter_samples: marks.notes.counters,
            spans_with_fields: marks.notes.spans,
            noted_arguments: marks.notes.arguments,
            task_changes: marks.notes.tasks,
            thread_state_changes: marks.notes.thread_states,
            gaps: marks.gaps,
            lost_records: marks.lost,
            clock_breaks: marks.breaks,
        }
    }
}

fn thread<'a>(seen: &'a ThreadTally, info: &TraceInfo) -> Thread<'a> {
    let nanos = |ticks: Ticks| info.clock.nanos(ticks).0;
    let counts = seen.thread.counts.as_ref();
    Thread {
        id: seen.thread.id.0,
        name: &seen.thread.name,
        process: seen.thread.process.or(info.process),
        begin_ns: seen.times().map(|(first, _)| nanos(first)),
        duration_ns: seen
            .times()
            .map(|(first, last)| nanos(last.since(first)))
            .filter(|_| !trace::is_timeless(info)),
        records: seen.records - seen.synthetic,
        synthetic_records: seen.synthetic,
        recorded: counts.map(|counts| counts.recorded),
        readable: counts.map(|counts| counts.readable),
        overwritten: counts.map(|counts| counts.overwritten),
        dropped: counts.map(|counts| counts.dropped),
        summarised: counts.map(|counts| counts.summarised),
    }
}
