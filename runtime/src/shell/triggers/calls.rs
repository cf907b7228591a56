//! Triggers that wait for calls: their thresholds in ticks, the reasons and named moments of their dumps, and calls
//! that do not return.

use std::time::Duration;

use fdr_formats::filter::Filter;
use fdr_formats::text::owned;
use fdr_formats::trigger::{CallEnd, Event, Occurrence, Reason, SlowCall, Trigger};
use fdr_formats::{moments, text};

use super::{Due, Progress, as_ns, triggers};
use crate::clock;
use crate::recorder::{self, watch};
use crate::shell::sites::TableHandle;
use crate::shell::state::State;

/// How long after its threshold a call that has not returned fires.
pub(super) const OVERDUE_AFTER: Duration = Duration::from_secs(2);

/// The most bytes of a function's name in a reason.
const MAX_NAME: usize = 400;

/// The triggers that wait for calls: number, names of functions, and threshold.
pub(super) fn calls(list: &[Trigger]) -> impl Iterator<Item = (usize, &Filter, Duration)> {
    list.iter()
        .enumerate()
        .filter_map(|(number, of)| match &of.event {
            Event::Call(names, longest) => Some((number, names, *longest)),
            _ => None,
        })
}

pub(super) fn ticks(time: Duration, hz: u64) -> u64 {
    let ticks = time.as_nanos().saturating_mul(u128::from(hz)) / 1_000_000_000;
    u64::try_from(ticks)
        .unwrap_or(watch::NEVER)
        .min(watch::NEVER - 1)
}

fn nanos(ticks: u64, hz: u64) -> u64 {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(hz.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// For each trigger that can never fire, a line with the reason.
pub(crate) fn problems(table: TableHandle) -> Vec<String> {
    let table = table.lock();
    let mut problems = Vec::new();
    for trigger in triggers() {
        let Event::Call(names, _) = &trigger.event else {
            continue;
        };
        let problem = match table.watchable(names) {
            (0, _) => {
                let glob = names.includes().first().map_or("", String::as_str);
                let nearest = table.nearest_in_words(glob);
                format!("no function with durations has that name (nearest: {nearest})")
            }
            (_, 0) if table.is_enabled() => owned("FDR excludes the functions that it names"),
            _ => continue,
        };
        problems.push(format!("trigger {}: {problem}", trigger.text));
    }
    problems
}

/// Whether the trigger waits for calls of that function.
pub(super) fn is_of(table: TableHandle, trigger: &Trigger, call: &watch::SlowCall) -> bool {
    match &trigger.event {
        Event::Call(names, _) => names.matches(table.lock().name_of(call.function)),
        _ => false,
    }
}

/// The dump of a slow call: its reason, and the call's beginning and end as named moments.
pub(super) fn of_call(
    state: &State,
    table: TableHandle,
    trigger: &Trigger,
    call: &watch::SlowCall,
) -> Due {
    let name = owned(table.lock().name_of(call.function));
    let hz = state.frequency().hz;
    let start = state.start();
    let since_start_ns = match call.begin.checked_sub(start.ticks) {
        Some(ticks) => i128::from(nanos(ticks, hz)),
        None => -i128::from(nanos(start.ticks - call.begin, hz)),
    };
    let begin_unix_ns = i128::from(start.realtime_ns) + since_start_ns;
    let thread_name = call.name.map(u64::to_ne_bytes);
    let thread_name = String::from_utf8_lossy(thread_name.as_flattened());
    let reason = Reason {
        trigger: &trigger.text,
        occurrence: Occurrence::Call(SlowCall {
            function: text::last(&name, MAX_NAME),
            task: (call.task != 0).then_some(call.task),
            took_ns: nanos(call.ticks, hz),
            end: call.end,
            thread: u64::from(call.thread),
            thread_name: thread_name.trim_end_matches('\0'),
            begin_unix_ns: u64::try_from(begin_unix_ns).unwrap_or(0),
        }),
    };
    let mark = |word: &str| {
        let shown = text::last(&name, moments::MAX_BYTES - word.len());
        format!("{word}{shown}")
    };
    let mut marks = vec![(call.begin, mark("begin of "))];
    if call.end != CallEnd::Open {
        marks.push((call.begin.saturating_add(call.ticks), mark("end of ")));
    }
    Due {
        marks,
        thread: Some(call.thread),
        ..Due::from_reason(format!("{reason}"))
    }
}

impl Progress {
    /// Fires for calls that have not returned.
    pub(super) fn look_at_calls(&mut self, state: &State, triggers: &[Trigger], now_ns: u64) {
        let Some(least) = calls(triggers).map(|(.., longest)| longest).min() else {
            self.calls_due_ns = u64::MAX;
            return;
        };
        if now_ns < self.calls_due_ns {
            return;
        }
        // A call that begins now is not due before that.
        let mut pause_ns = as_ns(least.saturating_add(OVERDUE_AFTER));
        if let Some(ring) = recorder::ring() {
            let hz = state.frequency().hz;
            let now = clock::read(state.chosen.kind).ticks;
            let next = watch::look_at_open(ring, now);
            pause_ns = pause_ns.min(next.map_or(u64::MAX, |ticks| nanos(ticks, hz) + 1));
        }
        self.calls_due_ns = now_ns.saturating_add(pause_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_time() {
        assert_eq!(ticks(Duration::from_millis(50), 2_000_000_000), 100_000_000);
        assert_eq!(nanos(100_000_000, 2_000_000_000), 50_000_000);
        assert_eq!(ticks(Duration::MAX, u64::MAX), watch::NEVER - 1);
        assert_eq!(nanos(1, 0), 1_000_000_000);
    }
}
