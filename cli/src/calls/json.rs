//! The slowest calls as JSON: see docs/json.md.

use std::borrow::Cow;
use std::io::Write;

use fdr_formats::model::State;
use fdr_formats::notes::Note;
use fdr_formats::{FunctionId, ThreadId, Ticks, TraceInfo, note_words};
use serde::Serialize;

use super::arguments::CallNotes;
use super::cause::{Cause, Step};
use super::cpu_time::CpuTime;
use super::events::{self, Events};
use super::finding::Finding;
use super::findings::Findings;
use super::idle::IdleFunction;
use super::samples::Samples;
use super::states::{CallStates, Preemptor};
use super::tree;
use super::words::sentence;
use crate::report::json::{self, Head};
use crate::report::json_field::JsonField;
use crate::report::names::{name_of, name_of_thread};
use crate::symbols;

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    is_whole_run: bool,
    calls: Vec<Call<'a>>,
    calls_not_shown: u64,
    waits_for_work: Vec<Idle>,
    cpu_time: Option<AllCpuTime>,
}

#[derive(Serialize)]
struct Idle {
    function: String,
    id: u32,
    calls: u64,
    total_ns: u64,
    waiting_ns: u64,
}

#[derive(Serialize)]
struct AllCpuTime {
    running_ns: u64,
    in_calls_ns: u64,
    in_no_call_ns: u64,
    threads: Vec<ThreadCpuTime>,
    samples_in_no_call: u64,
    in_no_call: Vec<SampledLine>,
}

#[derive(Serialize)]
struct ThreadCpuTime {
    thread: u64,
    thread_name: String,
    running_ns: u64,
    in_calls_ns: u64,
}

#[derive(Serialize)]
struct Call<'a> {
    function: String,
    id: u32,
    thread: u64,
    thread_name: String,
    start_ns: u64,
    since_first_ns: Option<u64>,
    begin_unix_ns: Option<u64>,
    total_ns: u64,
    returned: bool,
    slow_calls: Option<u64>,
    same_cause: Option<SameCause>,
    usual: Usual,
    excess_ns: u64,
    path: Vec<Part>,
    spread: Vec<Part>,
    cause: &'static str,
    share: f64,
    wait: Option<Wait>,
    states: Option<States>,
    samples: Option<AllSamples>,
    meanwhile: Option<ConcurrentCall>,
    arguments: Vec<Arguments<'a>>,
    events: Vec<Event<'a>>,
    events_in_all: u64,
    sentence: String,
}

#[derive(Serialize)]
pub(crate) struct Arguments<'a> {
    function: String,
    fields: Vec<JsonField<'a>>,
}

#[derive(Serialize)]
pub(crate) struct Event<'a> {
    name: String,
    level: Option<Cow<'static, str>>,
    since_begin_ns: u64,
    times: u64,
    fields: Vec<JsonField<'a>>,
}

#[derive(Serialize)]
struct SameCause {
    calls: u64,
    or_more: bool,
    functions: u64,
    total_ns: u64,
    times: u64,
}

#[derive(Serialize)]
struct Usual {
    calls: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
}

#[derive(Serialize)]
struct Part {
    function: String,
    calls: u64,
    total_ns: u64,
    usual_ns: u64,
    usual_calls: f64,
}

#[derive(Serialize)]
struct Wait {
    waited_for: String,
    reason: String,
    waited_ns: u64,
    holder: Option<u64>,
    holder_name: Option<String>,
    holder_function: Option<String>,
}

#[derive(Serialize)]
struct States {
    running_ns: u64,
    preempted_ns: u64,
    waiting_ns: u64,
    unknown_ns: u64,
    excess: Option<&'static str>,
    preempted_by: Option<PreemptedBy>,
    page_faults: u64,
}

#[derive(Serialize)]
struct AllSamples {
    time: u64,
    time_in: Vec<SampledLine>,
    page_faults: u64,
    page_faults_in: Vec<SampledLine>,
}

#[derive(Serialize)]
struct SampledLine {
    function: String,
    file: Option<String>,
    line: Option<u32>,
    samples: u64,
}

#[derive(Serialize)]
struct PreemptedBy {
    is_other_process: bool,
    thread: Option<u64>,
    thread_name: Option<String>,
    function: Option<String>,
}

#[derive(Serialize)]
struct ConcurrentCall {
    thread: u64,
    thread_name: String,
    function: String,
    ns: u64,
    running_ns: Option<u64>,
    usual_share: f64,
}

/// Writes all findings.
pub(crate) fn write(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    found: &Findings,
) -> anyhow::Result<()> {
    let calls = found.list.iter().map(|finding| call(info, found, finding));
    json::print(
        out,
        &Document {
            head: Head::new(file, info),
            is_whole_run: found.is_whole_run,
            calls: calls.collect(),
            calls_not_shown: found.hidden_calls.iter().map(|(_, calls)| calls).sum(),
            waits_for_work: found.idle.iter().map(|of| idle(info, of)).collect(),
            cpu_time: found.cpu_time.as_ref().map(|time| cpu_time(info, time)),
        },
    )
}

fn idle(info: &TraceInfo, idle: &IdleFunction) -> Idle {
    let nanos = |ticks: u64| info.clock.nanos(Ticks(ticks)).0;
    Idle {
        function: name_of(info, idle.function),
        id: idle.function.0,
        calls: idle.calls,
        total_ns: nanos(idle.total),
        waiting_ns: nanos(idle.waiting),
    }
}

fn cpu_time(info: &TraceInfo, time: &CpuTime) -> AllCpuTime {
    let nanos = |ticks: u64| info.clock.nanos(Ticks(ticks)).0;
    let threads = time.threads.iter().map(|of| ThreadCpuTime {
        thread: of.thread.0,
        thread_name: name_of_thread(info, of.thread).to_owned(),
        running_ns: nanos(of.running),
        in_calls_ns: nanos(of.in_calls),
    });
    AllCpuTime {
        running_ns: nanos(time.running()),
        in_calls_ns: nanos(time.in_calls()),
        in_no_call_ns: nanos(time.outside()),
        threads: threads.collect(),
        samples_in_no_call: time.samples.count,
        in_no_call: time.samples.places.iter().map(place).collect(),
    }
}

fn call<'a>(info: &'a TraceInfo, found: &Findings, finding: &Finding) -> Call<'a> {
    let clock = &info.clock;
    let nanos = |ticks: u64| clock.nanos(Ticks(ticks)).0;
    let (call, usual) = (&finding.call, &finding.usual);
    let explained = &finding.explained;
    let part = |step: &Step| Part {
        function: name_of(info, step.function),
        calls: step.calls,
        total_ns: step.total as u64,
        usual_ns: step.usual as u64,
        usual_calls: step.usual_calls,
    };
    let total_ns = nanos(call.total);
    Call {
        function: name_of(info, call.function),
        id: call.function.0,
        thread: call.thread.0,
        thread_name: name_of_thread(info, call.thread).to_owned(),
        start_ns: clock.nanos(call.start).0,
        since_first_ns: found
            .begin
            .map(|begin| clock.nanos(call.start.since(begin)).0),
        begin_unix_ns: clock.unix_nanos(call.start),
        total_ns,
        returned: !call.is_open,
        slow_calls: finding.slow_calls,
        same_cause: finding.same_cause.map(|same| SameCause {
            calls: same.calls,
            or_more: same.or_more,
            functions: same.functions,
            total_ns: info.clock.nanos(Ticks(same.total)).0,
            times: same.times,
        }),
        usual: Usual {
            calls: usual.calls,
            p50_ns: usual.p50,
            p90_ns: usual.p90,
            p99_ns: usual.p99,
        },
        excess_ns: total_ns.saturating_sub(usual.p50),
        path: explained.path.iter().map(part).collect(),
        spread: explained.spread.iter().map(part).collect(),
        cause: cause(explained.cause),
        share: explained.share,
        wait: finding.wait.map(|found| wait(info, &found)),
        states: finding.states.map(|found| states(info, &found)),
        samples: finding.samples.as_ref().map(samples),
        meanwhile: finding.meanwhile.map(|meanwhile| ConcurrentCall {
            thread: meanwhile.thread.0,
            thread_name: name_of_thread(info, meanwhile.thread).to_owned(),
            function: name_of(info, meanwhile.function),
            ns: nanos(meanwhile.ticks),
            running_ns: finding.states.map(|_| nanos(meanwhile.running)),
            usual_share: meanwhile.usual,
        }),
        arguments: finding
            .arguments
            .iter()
            .map(|of| arguments(info, of))
            .collect(),
        events: events(info, &finding.events, call.start),
        events_in_all: finding.events.count,
        sentence: sentence(info, finding),
    }
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

fn wait(info: &TraceInfo, wait: &tree::Wait) -> Wait {
    let holder = (wait.holder > 0).then_some(wait.holder);
    Wait {
        waited_for: wait.object.in_words(info),
        reason: note_words::reason(wait.object.reason).into_owned(),
        waited_ns: info.clock.nanos(Ticks(wait.waited)).0,
        holder,
        holder_name: holder.map(|id| name_of_thread(info, ThreadId(id)).to_owned()),
        holder_function: (wait.function > 0).then(|| name_of(info, FunctionId(wait.function))),
    }
}

fn states(info: &TraceInfo, states: &CallStates) -> States {
    let nanos = |ticks| info.clock.nanos(ticks).0;
    States {
        running_ns: nanos(states.stretch.spent.running),
        preempted_ns: nanos(states.stretch.spent.preempted),
        waiting_ns: nanos(states.stretch.spent.waiting),
        unknown_ns: nanos(states.stretch.unknown),
        excess: states.excess.map(State::name),
        preempted_by: states.by.map(|by| preempted_by(info, by)),
        page_faults: states.page_faults,
    }
}

fn samples(samples: &Samples) -> AllSamples {
    AllSamples {
        time: samples.time.count,
        time_in: samples.time.places.iter().map(place).collect(),
        page_faults: samples.faults.count,
        page_faults_in: samples.faults.places.iter().map(place).collect(),
    }
}

/// Events with their times since `begin`.
pub(crate) fn events<'a>(info: &'a TraceInfo, all: &Events, begin: Ticks) -> Vec<Event<'a>> {
    let events = all.list.iter();
    events.filter_map(|of| event(info, of, begin)).collect()
}

fn event<'a>(info: &'a TraceInfo, of: &events::Event, begin: Ticks) -> Option<Event<'a>> {
    let Some(Note::Event {
        name,
        level,
        fields,
        ..
    }) = of.note()
    else {
        return None;
    };
    Some(Event {
        name: name_of(info, FunctionId(name)),
        level: note_words::level(level),
        since_begin_ns: info.clock.nanos(of.time.since(begin)).0,
        times: of.times,
        fields: fields
            .iter()
            .map(|field| JsonField::new(field, info))
            .collect(),
    })
}

pub(crate) fn arguments<'a>(info: &'a TraceInfo, of: &CallNotes) -> Arguments<'a> {
    let fields = of.fields();
    Arguments {
        function: name_of(info, of.function),
        fields: fields
            .iter()
            .map(|field| JsonField::new(field, info))
            .collect(),
    }
}

fn place((place, samples): &(symbols::CodeLocation, u64)) -> SampledLine {
    let (file, line) = place.line.clone().unzip();
    SampledLine {
        function: place.function.clone(),
        file,
        line,
        samples: *samples,
    }
}

fn preempted_by(info: &TraceInfo, by: Preemptor) -> PreemptedBy {
    let (thread, function) = match by {
        Preemptor::Thread(thread, function) => (Some(thread), function),
        Preemptor::Several(function) => (None, function),
        Preemptor::Another => (None, None),
    };
    PreemptedBy {
        is_other_process: by == Preemptor::Another,
        thread: thread.map(|thread| thread.0),
        thread_name: thread.map(|thread| name_of_thread(info, thread).to_owned()),
        function: function.map(|function| name_of(info, function)),
    }
}
