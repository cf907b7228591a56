//! What was found of a slow call, in words.

use fdr_formats::model::State;
use fdr_formats::{FunctionId, ThreadId, Ticks, TraceInfo, note_words};

use super::cause::{Cause, Explanation, Step};
use super::finding::Finding;
use super::findings::Findings;
use super::idle::IdleFunction;
use super::tree::Wait;
use crate::report::names::{name_of, thread_name};
use crate::ui;

/// Functions that are named of those that wait for work.
const MAX_IDLE: usize = 3;

/// What was found of a call, in a sentence.
pub(crate) fn sentence(info: &TraceInfo, finding: &Finding) -> String {
    let explained = &finding.explained;
    let Some(last) = explained.path.last() else {
        return String::new();
    };
    let name = ui::clean(&name_of(info, last.function)).into_owned();
    let share = percent(explained.share);
    let mut words = match explained.cause {
        Cause::None => return "The call took no longer than usual.".to_owned(),
        Cause::Itself => format!("{share} of the excess is in {name} itself"),
        Cause::TooOften => format!(
            "{share} of the excess is in {name}, which was called {}, and usually {}",
            ui::things(last.calls, "time"),
            ui::things(last.usual_calls.round() as u64, "time"),
        ),
        Cause::ShortCalls => {
            format!("{share} of the excess is in short calls of {name}, which left no records")
        }
        Cause::OtherWork => format!(
            "{share} of the excess is in {}",
            other_work(info, explained)
        ),
        Cause::Spread if explained.path.len() == 1 => {
            "No call inside has most of the excess".to_owned()
        }
        Cause::Spread => {
            format!("{share} of the excess is in {name}, and no call inside has most of it")
        }
    };
    if let Some(wait) = &finding.wait {
        words.push_str(&format!(
            ", because the thread waited {} for {}",
            ui::duration(info.clock.nanos(Ticks(wait.waited)).0),
            wait_in_words(info, wait)
        ));
    }
    let mut meanwhile = finding.meanwhile.as_ref();
    if let Some(wait) = &finding.wait {
        // If the trace knows who held the object and in which function, the sentence names no other
        // thread.
        let is_other = |thread: ThreadId| wait.holder > 0 && thread.0 != wait.holder;
        meanwhile = meanwhile.filter(|what| wait.function == 0 && !is_other(what.thread));
    } else if explained.cause == Cause::OtherWork {
        // The thread was at work itself.
        meanwhile = None;
    } else if let Some(states) = &finding.states {
        words.push_str(&states.in_words(info));
        // Another thread can explain a wait only. It does not delay a thread that computes. For a
        // preempted thread, the states name the thread that took its CPU.
        let is_waiting = |state| state == State::Waiting;
        meanwhile = meanwhile.filter(|_| states.excess.is_none_or(is_waiting));
    }
    if let Some(meanwhile) = meanwhile {
        let thread = thread_name(info, meanwhile.thread);
        let function = name_of(info, meanwhile.function);
        words.push_str(&format!(", while {thread} was in {}", ui::clean(&function)));
    }
    words.push('.');
    if explained.cause == Cause::OtherWork {
        words.push_str(
            " Several threads make such calls outermost, too, so this thread may have run other work while the call waited.",
        );
    }
    words
}

/// Calls that may be work for another call, and how many are usual.
fn other_work(info: &TraceInfo, explained: &Explanation) -> String {
    let steps = match explained.spread.is_empty() {
        true => &explained.path[explained.path.len() - 1..],
        false => &explained.spread,
    };
    let of_step = |step: &Step| {
        format!(
            "{} of {} (usually {})",
            ui::things(step.calls, "call"),
            ui::clean(&name_of(info, step.function)),
            ui::count(step.usual_calls.round() as u64),
        )
    };
    let steps: Vec<String> = steps.iter().map(of_step).collect();
    steps.join(", ")
}

/// The object that the thread waited for, and its holder.
fn wait_in_words(info: &TraceInfo, wait: &Wait) -> String {
    let object = wait.object.in_words(info);
    let reason = note_words::reason(wait.object.reason);
    let mut words = format!("{} ({reason})", ui::clean(&object));
    if wait.holder > 0 {
        words.push_str(&format!(
            ", held by {}",
            thread_name(info, ThreadId(wait.holder))
        ));
    }
    if wait.function > 0 {
        let function = name_of(info, FunctionId(wait.function));
        words.push_str(&format!(" in {}", ui::clean(&function)));
    }
    words
}

/// The functions whose slow calls are left out, because the thread waits for work in them.
pub(crate) fn idle(info: &TraceInfo, found: &Findings) -> Option<String> {
    let function = |idle: &IdleFunction| {
        let total = ui::duration(info.clock.nanos(Ticks(idle.total)).0);
        let calls = ui::things(idle.calls, "call");
        let waiting = match idle.waiting {
            0 => String::new(),
            waiting => {
                let share = percent(waiting as f64 / idle.total.max(1) as f64);
                format!(", waiting {share}")
            }
        };
        let name = name_of(info, idle.function);
        format!("{} ({calls}, {total}{waiting})", ui::clean(&name))
    };
    let (wait, whose) = match found.idle.len() {
        0 => return None,
        1 => ("function waits", "its"),
        _ => ("functions wait", "their"),
    };
    let named = found.idle.iter().take(MAX_IDLE).map(function);
    let mut words: Vec<String> = named.collect();
    if let more @ 1.. = found.idle.len().saturating_sub(MAX_IDLE) {
        words.push(ui::things(more as u64, "other"));
    }
    Some(format!(
        "{} {wait} for work, so {whose} slow calls are left out: {}; fdr slow --calls shows them",
        found.idle.len(),
        words.join(", ")
    ))
}

/// How much of the CPU time no traced call explains, and where it was, if that is much.
pub(crate) fn cpu_time(info: &TraceInfo, found: &Findings) -> Option<String> {
    let mut words = cpu_time_in_short(info, found)?;
    let cpu = found.cpu_time.as_ref()?;
    if let Some(thread) = cpu.with_most_outside() {
        words += &format!(", most of them in thread {}", thread_name(info, thread));
    }
    if cpu.samples.count > 0 {
        let samples = ui::things(cpu.samples.count, "sample");
        words += &format!("; {samples} there: {}", cpu.samples.in_words());
    }
    Some(words)
}

/// How much of the CPU time no traced call explains, if that is much.
pub(crate) fn cpu_time_in_short(info: &TraceInfo, found: &Findings) -> Option<String> {
    let cpu = found.cpu_time.as_ref().filter(|cpu| cpu.is_notable())?;
    let time = |ticks| ui::duration(info.clock.nanos(Ticks(ticks)).0);
    Some(format!(
        "of {} of CPU time, {} are in traced calls; {} in none",
        time(cpu.running()),
        time(cpu.in_calls()),
        time(cpu.outside())
    ))
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share.min(1.0))
}

/// Of what the usual values are.
pub(crate) fn scope(is_whole_run: bool) -> &'static str {
    match is_whole_run {
        true => "of the whole run",
        false => "in the trace",
    }
}

/// The calls that have the same cause, if there are several.
pub(crate) fn same_cause(info: &TraceInfo, finding: &Finding) -> Option<String> {
    let same = finding.same_cause.filter(|same| same.calls > 1)?;
    let functions = match same.functions {
        1 => String::new(),
        several => format!(" of {}", ui::things(several, "function")),
    };
    let total = ui::duration(info.clock.nanos(Ticks(same.total)).0);
    let times = match same.times {
        times if times < same.calls => format!(", on {}", ui::things(times, "occasion")),
        _ => String::new(),
    };
    let or_more = if same.or_more { "at least " } else { "" };
    Some(format!(
        "the slowest of {or_more}{}{functions} with this cause: {total} in all{times}",
        ui::things(same.calls, "call"),
    ))
}
