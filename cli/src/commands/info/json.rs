//! `fdr info --json`: what a trace says of itself, for scripts. The shape is in docs/json.md.

use std::io::Write;
use std::path::Path;

use fdr_formats::{Function, Source, Ticks, TraceInfo};
use serde_json::{Value, json};

use super::states::ScheduleCounts;
use crate::report::json;
use crate::report::moments::Moments;
use crate::report::rows::OpenRow;
use crate::tally::{Marks, Tally, ThreadTally};
use crate::{clock, output_file, trace};

/// Writes all of it. `functions`: with every function.
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
    let first = times.map(|(first, _)| first);
    let begin = first.or(info.start);
    let has_times = !trace::is_timeless(info);
    let duration = times.filter(|_| has_times);
    let moments = Moments::from_info(info, first);
    let threads = tally.threads().map(|seen| thread(seen, info));
    let mut document = json!({
        "bytes": output_file::size(file),
        "reason": info.reason,
        "dump": info.dump,
        "clock": json::clock(info),
        "has_times": has_times,
        "begin_ns": begin.map(nanos),
        "begin_unix_ns": begin.and_then(|begin| info.clock.unix_nanos(begin)),
        "duration_ns": duration.map(|(first, last)| nanos(last.since(first))),
        "records": tally.records(),
        "synthetic_records": tally.synthetic(),
        "others": others(&tally.marks()),
        "states": ScheduleCounts::new(info, begin.filter(|_| has_times)),
        "threads": threads.collect::<Value>(),
        "function_count": info.called().count(),
        "failed_thread": info.failed_thread().map(|thread| thread.0),
        "trigger": info.trigger().map(json::trigger),
        "open_calls": open,
        "marks": moments.list,
        "earlier_marks": moments.earlier,
        "missing": json::missing(&info.missing),
        "diagnostics": json::diagnostics(&tally.diagnostics),
        "diagnostics_not_shown": tally.more_diagnostics,
        "clock_notes": clock::notes(&info.clock),
    });
    if functions {
        document["functions"] = info.called().map(function).collect();
    }
    json::print_of(out, &file.to_string_lossy(), info, document)
}

fn function(function: &Function) -> Value {
    json!({
        "id": function.id.0,
        "name": function.name,
        "file": function.file,
        "line": function.line,
        "untimed": function.untimed,
    })
}

/// Everything that is no call, by its kind.
fn others(marks: &Marks) -> Value {
    json!({
        "cpu_changes": marks.cpus,
        "wall_times": marks.walls,
        "arguments": marks.arguments,
        "custom_events": marks.customs,
        "typed_events": marks.typed,
        "notes": marks.notes.count(),
        "events": marks.notes.events,
        "counter_samples": marks.notes.counters,
        "spans_with_fields": marks.notes.spans,
        "noted_arguments": marks.notes.arguments,
        "task_changes": marks.notes.tasks,
        "thread_state_changes": marks.notes.thread_states,
        "gaps": marks.gaps,
        "lost_records": marks.lost,
        "clock_breaks": marks.breaks,
    })
}

/// A thread; what the recorder counted is `null` where the trace does not say it.
fn thread(seen: &ThreadTally, info: &TraceInfo) -> Value {
    let nanos = |ticks: Ticks| info.clock.nanos(ticks).0;
    let times = seen.times();
    let duration = times.filter(|_| !trace::is_timeless(info));
    let counts = seen.thread.counts.as_ref();
    json!({
        "id": seen.thread.id.0,
        "name": seen.thread.name,
        "process": seen.thread.process.or(info.process),
        "begin_ns": times.map(|(first, _)| nanos(first)),
        "duration_ns": duration.map(|(first, last)| nanos(last.since(first))),
        "records": seen.records - seen.synthetic,
        "synthetic_records": seen.synthetic,
        "recorded": counts.map(|counts| counts.recorded),
        "readable": counts.map(|counts| counts.readable),
        "overwritten": counts.map(|counts| counts.overwritten),
        "dropped": counts.map(|counts| counts.dropped),
        "summarised": counts.map(|counts| counts.summarised),
    })
}
