//! The slowest calls as JSON: see docs/json.md.

use std::io::Write;

use fdr_formats::model::State;
use fdr_formats::notes::Note;
use fdr_formats::{FunctionId, ThreadId, Ticks, TraceInfo, note_words};
use serde_json::{Value, json};

use super::arguments::CallNotes;
use super::cause::{Cause, ConcurrentCall, Step};
use super::cpu_time::CpuTime;
use super::events::{self, Events};
use super::finding::{Finding, SameCause};
use super::findings::Findings;
use super::idle::IdleFunction;
use super::samples::{Sampled, Samples};
use super::states::{CallStates, Preemptor};
use super::tree::Wait;
use super::words::sentence;
use crate::report::json;
use crate::report::json_field::JsonField;
use crate::report::names::{name_of, name_of_thread};
use crate::report::states::InStates;
use crate::symbols::CodeLocation;

/// Writes all findings. `tasks`: the slow tasks, which the text shows before the calls.
pub(crate) fn write(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    tasks: &Value,
    found: &Findings,
) -> anyhow::Result<()> {
    let calls = found.list.iter().map(|finding| call(info, found, finding));
    let hidden: u64 = found.hidden_calls.iter().map(|(_, calls)| calls).sum();
    let idle = found.idle.iter().map(|of| idle(info, of));
    let document = json!({
        "is_whole_run": found.is_whole_run,
        "tasks": tasks,
        "calls": calls.collect::<Value>(),
        "calls_not_shown": hidden,
        "waits_for_work": idle.collect::<Value>(),
        "cpu_time": found.cpu_time.as_ref().map(|time| cpu_time(info, time)),
    });
    json::print_of(out, file, info, document)
}

fn idle(info: &TraceInfo, idle: &IdleFunction) -> Value {
    let nanos = |ticks: u64| info.clock.nanos(Ticks(ticks)).0;
    json!({
        "function": name_of(info, idle.function),
        "id": idle.function.0,
        "calls": idle.calls,
        "total_ns": nanos(idle.total),
        "waiting_ns": nanos(idle.waiting),
    })
}

fn cpu_time(info: &TraceInfo, time: &CpuTime) -> Value {
    let nanos = |ticks: u64| info.clock.nanos(Ticks(ticks)).0;
    let threads = time.threads.iter().map(|of| {
        json!({
            "thread": of.thread.0,
            "thread_name": name_of_thread(info, of.thread),
            "running_ns": nanos(of.running),
            "in_calls_ns": nanos(of.in_calls),
        })
    });
    json!({
        "running_ns": nanos(time.running()),
        "in_calls_ns": nanos(time.in_calls()),
        "in_no_call_ns": nanos(time.outside()),
        "threads": threads.collect::<Value>(),
        "samples_in_no_call": time.samples.count,
        "in_no_call": places(&time.samples),
    })
}

fn call(info: &TraceInfo, found: &Findings, finding: &Finding) -> Value {
    let clock = &info.clock;
    let (call, usual) = (&finding.call, &finding.usual);
    let explained = &finding.explained;
    let begin = found.begin;
    let total_ns = clock.nanos(Ticks(call.total)).0;
    json!({
        "function": name_of(info, call.function),
        "id": call.function.0,
        "thread": call.thread.0,
        "thread_name": name_of_thread(info, call.thread),
        "start_ns": clock.nanos(call.start).0,
        "since_first_ns": begin.map(|begin| clock.nanos(call.start.since(begin)).0),
        "begin_unix_ns": clock.unix_nanos(call.start),
        "total_ns": total_ns,
        "returned": !call.is_open,
        "slow_calls": finding.slow_calls,
        "same_cause": finding.same_cause.map(|same| same_cause(info, &same)),
        "usual": {
            "calls": usual.calls,
            "p50_ns": usual.p50,
            "p90_ns": usual.p90,
            "p99_ns": usual.p99,
        },
        "excess_ns": total_ns.saturating_sub(usual.p50),
        "path": steps(info, &explained.path),
        "spread": steps(info, &explained.spread),
        "cause": cause(explained.cause),
        "share": explained.share,
        "wait": finding.wait.map(|wait| waited(info, &wait)),
        "states": finding.states.map(|found| states(info, &found)),
        "samples": finding.samples.as_ref().map(samples),
        "meanwhile": finding.meanwhile.map(|other| {
            let mut meanwhile = concurrent_call(info, &other);
            let running = finding.states.map(|_| clock.nanos(Ticks(other.running)).0);
            meanwhile["running_ns"] = json!(running);
            meanwhile["usual_share"] = json!(other.usual);
            meanwhile
        }),
        "arguments": arguments(info, &finding.arguments),
        "events": events(info, &finding.events, call.start),
        "events_in_all": finding.events.count,
        "sentence": sentence(info, finding),
    })
}

fn same_cause(info: &TraceInfo, same: &SameCause) -> Value {
    json!({
        "calls": same.calls,
        "or_more": same.or_more,
        "functions": same.functions,
        "total_ns": info.clock.nanos(Ticks(same.total)).0,
        "times": same.times,
    })
}

fn steps(info: &TraceInfo, steps: &[Step]) -> Value {
    let step = |step: &Step| {
        json!({
            "function": name_of(info, step.function),
            "calls": step.calls,
            "total_ns": step.total as u64,
            "usual_ns": step.usual as u64,
            "usual_calls": step.usual_calls,
        })
    };
    steps.iter().map(step).collect()
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::None => "none",
        Cause::Itself => "itself",
        Cause::TooOften => "calls",
        Cause::ShortCalls => "short_calls",
        Cause::OtherWork => "other_work",
        Cause::Spread => "spread",
    }
}

fn waited(info: &TraceInfo, wait: &Wait) -> Value {
    let holder = (wait.holder > 0).then_some(wait.holder);
    let function = (wait.function > 0).then(|| name_of(info, FunctionId(wait.function)));
    json!({
        "waited_for": wait.object.in_words(info),
        "reason": note_words::reason(wait.object.reason),
        "waited_ns": info.clock.nanos(Ticks(wait.waited)).0,
        "holder": holder,
        "holder_name": holder.map(|id| name_of_thread(info, ThreadId(id))),
        "holder_function": function,
    })
}

fn states(info: &TraceInfo, states: &CallStates) -> Value {
    let mut spent = json!(InStates::of_stretch(&info.clock, &states.stretch));
    spent["excess"] = json!(states.excess.map(State::name));
    spent["preempted_by"] = json!(states.by.map(|by| preempted_by(info, by)));
    spent["page_faults"] = json!(states.page_faults);
    spent
}

fn preempted_by(info: &TraceInfo, by: Preemptor) -> Value {
    let (thread, function) = match by {
        Preemptor::Thread(thread, function) => (Some(thread), function),
        Preemptor::Several(function) => (None, function),
        Preemptor::Another => (None, None),
    };
    json!({
        "is_other_process": by == Preemptor::Another,
        "thread": thread.map(|thread| thread.0),
        "thread_name": thread.map(|thread| name_of_thread(info, thread)),
        "function": function.map(|function| name_of(info, function)),
    })
}

fn samples(samples: &Samples) -> Value {
    json!({
        "time": samples.time.count,
        "time_in": places(&samples.time),
        "page_faults": samples.faults.count,
        "page_faults_in": places(&samples.faults),
    })
}

/// Where samples were.
fn places(sampled: &Sampled) -> Value {
    let place = |(place, samples): &(CodeLocation, u64)| {
        let (file, line) = place.line.as_ref().map(|(file, line)| (file, line)).unzip();
        json!({
            "function": place.function,
            "file": file,
            "line": line,
            "samples": samples,
        })
    };
    sampled.places.iter().map(place).collect()
}

/// What another thread was in.
pub(crate) fn concurrent_call(info: &TraceInfo, other: &ConcurrentCall) -> Value {
    json!({
        "thread": other.thread.0,
        "thread_name": name_of_thread(info, other.thread),
        "function": name_of(info, other.function),
        "ns": info.clock.nanos(Ticks(other.ticks)).0,
    })
}

/// Events with their times since `begin`.
pub(crate) fn events(info: &TraceInfo, all: &Events, begin: Ticks) -> Value {
    let event = |of: &events::Event| {
        let Some(Note::Event {
            name,
            level,
            fields,
            ..
        }) = of.note()
        else {
            return None;
        };
        Some(json!({
            "name": name_of(info, FunctionId(name)),
            "level": note_words::level(level),
            "since_begin_ns": info.clock.nanos(of.time.since(begin)).0,
            "times": of.times,
            "fields": JsonField::list(&fields, info),
        }))
    };
    all.list.iter().filter_map(event).collect()
}

/// The arguments of calls.
pub(crate) fn arguments(info: &TraceInfo, calls: &[CallNotes]) -> Value {
    let call = |of: &CallNotes| {
        json!({
            "function": name_of(info, of.function),
            "fields": JsonField::list(&of.fields(), info),
        })
    };
    calls.iter().map(call).collect()
}
