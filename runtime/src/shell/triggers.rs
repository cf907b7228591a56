//! Triggers (`FDR_TRIGGER`): conditions under which the recorder dumps by itself. A call was slow, memory grew, time
//! passed, the program panicked or ended, or the dump signal came. `fdr_formats::trigger` parses their text. Threads
//! that record leave requests (`recorder::watch`), and the dumper makes the dumps: at once, or after the post-roll.
//! Dumps that are still due at the end of the process are made then. Nothing here may make a thread of the program
//! wait, except in a panic and at the exit.
//!
//! One trigger dumps at most once in its limit. Requests that come earlier are dropped. If several dumps
//! fail in a row, the first failure is a warning. The others are printed only with `FDR_LOG=info`.

mod calls;
mod trace_files;

use core::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fdr_formats::text::{self, owned};
use fdr_formats::trigger::{self, Event, Occurrence, Reason, Trigger};

use super::dump_signal;
use super::dumping::{self, Occasion};
use super::end_signals;
use super::handover::hand_over;
use super::sites::TableHandle;
use super::state::State;
use crate::api::Error;
use crate::recorder::{self, watch};
use crate::sys::lock::{Guard, Leaked, Lock};
use crate::sys::signal::undisturbed;
use crate::{clock, crash, messages, sys};
use calls::{OVERDUE_AFTER, calls, is_of, of_call, ticks};
use trace_files::TraceFiles;

pub(crate) use calls::problems;

/// How often the memory is looked at.
const PERIOD_NS: u64 = 1_000_000_000;

/// The triggers, once the recorder is up.
static TRIGGERS: Leaked<&'static [Trigger]> = Leaked::new();

/// The state of this process. No thread holds the lock longer than a dump takes.
static STATE: Lock<Progress> = Lock::new(Progress::new());

/// Whether the state is a copy of the parent's, which may have been about to change.
static IS_PARENTS: AtomicBool = AtomicBool::new(false);

/// The state of the triggers, and the dumps that are due.
struct Progress {
    /// One for each trigger.
    armed: Vec<Armed>,
    trace_files: TraceFiles,
    /// Whether the last dump failed, and whether a line has reported that there is no trace.
    has_failed: bool,
    is_failure_printed: bool,
    /// When memory and open calls are looked at next, ns.
    memory_due_ns: u64,
    calls_due_ns: u64,
    /// Whether any trigger has fired.
    has_fired: bool,
    /// The process ends, and its last dumps are made.
    is_over: bool,
}

/// The state of one trigger.
#[derive(Default)]
struct Armed {
    /// It does not fire before, ns.
    next_ns: u64,
    /// The dump that it is to make.
    due: Option<Due>,
    /// For triggers of calls: whether the dumper has read the request. It is released when the next call may fire.
    is_request_read: bool,
    /// For `every`: the time of the next dump, ns.
    period_ns: u64,
    /// For `rss`: whether memory was above the limit at the last check.
    is_above: bool,
}

/// A dump that is to be made.
struct Due {
    at_ns: u64,
    reason: String,
    marks: Vec<(u64, String)>,
    /// The thread that panicked, or had the slow call.
    thread: Option<u32>,
}

impl Progress {
    const fn new() -> Progress {
        Progress {
            armed: Vec::new(),
            trace_files: TraceFiles::new(),
            has_failed: false,
            is_failure_printed: false,
            memory_due_ns: 0,
            calls_due_ns: 0,
            has_fired: false,
            is_over: false,
        }
    }
}

/// The triggers of this process.
fn triggers() -> &'static [Trigger] {
    TRIGGERS.get().copied().unwrap_or_default()
}

/// The state, for moments and for dumps. `None`: the calling thread has it already, in a panic or a handler.
fn progress() -> Option<Guard<Progress>> {
    if STATE.is_mine() {
        return None;
    }
    let mut state = STATE.lock();
    if IS_PARENTS.swap(false, Ordering::Relaxed) {
        // Not dropped, because the fork may have come in the midst of a change.
        core::mem::forget(core::mem::replace(&mut *state, Progress::new()));
    }
    let now_ns = clock::monotonic_raw_ns();
    if state.armed.is_empty() {
        for of in triggers() {
            state.armed.push(Armed::new(of, now_ns));
        }
    }
    Some(state)
}

/// Called in the child of a fork. The child has the same triggers, but none of the parent's requests and files.
/// Async-signal-safe.
pub(crate) fn in_child(forker: u64) {
    STATE.in_child(forker);
    IS_PARENTS.store(true, Ordering::Relaxed);
    watch::forget();
}

/// Arms the triggers of the settings, while the recorder comes up.
pub(crate) fn begin(state: &'static State, table: TableHandle) {
    if TRIGGERS.get().is_none() {
        set(state, table, &state.config.triggers);
    }
}

/// Replaces the triggers. Dumps of the former triggers that are still due are not made.
pub(crate) fn set(state: &State, table: TableHandle, list: &'static [Trigger]) {
    // The dumps of this process alone may hold this up.
    let Some(mut progress) = progress() else {
        return;
    };
    let mut named = Vec::new();
    for (number, names, _) in calls(list) {
        named.push((number, names.clone()));
    }
    let has_stacks = named.is_empty() || recorder::ring().is_some_and(watch::make_stacks);
    if !has_stacks {
        messages::warn(format_args!(
            "no memory for triggers of calls: they never fire"
        ));
    }
    for number in 0..trigger::MAX_TRIGGERS {
        watch::set_threshold(number, watch::NEVER);
    }
    if !named.is_empty() {
        let (_, frequency) = state.settled_frequency();
        for (number, _, longest) in calls(list) {
            watch::set_threshold(number, ticks(longest, frequency.hz));
        }
        watch::set_patience(ticks(OVERDUE_AFTER, frequency.hz));
    }
    table.lock().watch(named);
    watch::forget();
    TRIGGERS.set(list);
    if state.address().is_some() || !state.output().is_null() {
        end_signals::begin(list);
    }
    progress.armed.clear();
    (progress.calls_due_ns, progress.memory_due_ns) = (0, 0);
}

fn as_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The triggers in the words of `FDR_TRIGGER`.
pub(crate) fn in_words() -> String {
    let mut words = String::new();
    for trigger in triggers() {
        text::append(&mut words, ", ", &trigger.text);
    }
    if words.is_empty() {
        words.push_str("off");
    }
    words
}

impl Armed {
    fn new(trigger: &Trigger, now_ns: u64) -> Armed {
        let mut armed = Armed::default();
        if let Event::Every(period) = trigger.event {
            armed.period_ns = now_ns.saturating_add(as_ns(period));
        }
        armed
    }

    /// Fires if a slow call has left a request.
    fn take_request(
        &mut self,
        state: &State,
        table: TableHandle,
        number: usize,
        trigger: &Trigger,
        now_ns: u64,
    ) {
        if let Some(call) = watch::request(number).filter(|_| !self.is_request_read) {
            self.is_request_read = true;
            // While the triggers were replaced, a call may have left a request of the former one.
            if is_of(table, trigger, &call) {
                self.fire(trigger, now_ns, &|| of_call(state, table, trigger, &call));
            }
        }
    }

    /// When the dumper has to look next because of this trigger, ns.
    fn next_look_ns(&self, trigger: &Trigger) -> u64 {
        match (&self.due, &trigger.event) {
            (Some(due), _) => due.at_ns,
            (None, Event::Every(_)) => self.period_ns,
            (None, _) if self.is_request_read => self.next_ns,
            (None, _) => u64::MAX,
        }
    }

    /// Fires, unless the limit forbids it. Returns whether it does.
    #[inline(never)]
    fn fire(&mut self, trigger: &Trigger, now_ns: u64, due: &dyn Fn() -> Due) -> bool {
        let may = now_ns >= self.next_ns && self.due.is_none();
        if may {
            self.next_ns = now_ns.saturating_add(as_ns(trigger.limit));
            let due = due();
            self.due = Some(Due {
                at_ns: now_ns.saturating_add(as_ns(trigger.post_roll)),
                ..due
            });
        }
        may
    }
}

impl Due {
    fn from_trigger(trigger: &Trigger, words: &str) -> Due {
        let (trigger, occurrence) = (trigger.text.as_str(), Occurrence::Other(words));
        Due::from_reason(format!(
            "{}",
            Reason {
                trigger,
                occurrence
            }
        ))
    }

    fn from_reason(reason: String) -> Due {
        Due {
            at_ns: 0,
            reason,
            marks: Vec::new(),
            thread: None,
        }
    }
}

/// Has a trigger make the dump that the signal asks for. False if there is no such trigger. The dumper calls this.
pub(crate) fn take_signal() -> bool {
    let is = |of: &Trigger| of.event == Event::Signal;
    let Some(number) = triggers().iter().position(is) else {
        return false;
    };
    if let (Some(mut progress), Some(trigger)) = (progress(), triggers().get(number)) {
        if let Some(armed) = progress.armed.get_mut(number) {
            let due = || Due::from_reason(owned("signal"));
            armed.fire(trigger, clock::monotonic_raw_ns(), &due);
        }
    }
    true
}

/// Dumps because of a panic of the calling thread, or later if there is a post-roll. `reason` is the panic in words.
pub(crate) fn take_panic(state: &State, table: TableHandle, reason: impl FnOnce() -> String) {
    let is = |of: &Trigger| of.event == Event::Panic;
    let Some((number, trigger)) = triggers().iter().enumerate().find(|(_, of)| is(of)) else {
        return;
    };
    sys::process::notice_child();
    // A thread that panics while it changes what is recorded gets no dump, because the dumper would wait for it.
    if table.is_mine() {
        return;
    }
    let (reason, thread) = (reason(), sys::thread::tid());
    let due = || Due {
        thread: Some(thread),
        ..Due::from_reason(owned(&reason))
    };
    let take = || {
        let mut progress = progress()?;
        let armed = progress.armed.get_mut(number)?;
        let fires = armed.fire(trigger, clock::monotonic_raw_ns(), &due);
        let is_now = fires && trigger.post_roll.is_zero();
        Some(is_now && progress.dump(state, table, number, u64::MAX))
    };
    // No handler of the program may interrupt this, as in a dump.
    let dumped = undisturbed(|| hand_over(take));
    if let Ok(Some(true)) = dumped {
        crash::panic_was_dumped();
    }
    if !trigger.post_roll.is_zero() {
        sys::thread::wake_dumper();
    }
}

/// Checks whether a trigger fires, and makes the dumps that are due. Returns how long the dumper may sleep. `None` if
/// no trigger needs another check.
pub(crate) fn look(state: &State, table: TableHandle) -> Option<Duration> {
    let triggers = triggers();
    let waits = |of: &Trigger| !of.event.is_end();
    if !triggers.iter().any(waits) {
        return None;
    }
    let mut progress = progress()?;
    if progress.is_over {
        return None;
    }
    let now_ns = clock::monotonic_raw_ns();
    progress.look_at_calls(state, triggers, now_ns);
    progress.look_at_memory(triggers, now_ns);
    let mut next_ns = progress.calls_due_ns.min(progress.memory_due_ns);
    for (number, trigger) in triggers.iter().enumerate() {
        let Some(armed) = progress.armed.get_mut(number) else {
            continue;
        };
        match &trigger.event {
            Event::Call(..) => {
                if armed.is_request_read && armed.due.is_none() && now_ns >= armed.next_ns {
                    armed.is_request_read = false;
                    watch::release(number);
                }
                armed.take_request(state, table, number, trigger, now_ns);
            }
            Event::Every(period) if now_ns >= armed.period_ns => {
                armed.fire(trigger, now_ns, &|| Due::from_trigger(trigger, ""));
                // Periods that have passed meanwhile are left out.
                let periods = now_ns.saturating_sub(armed.period_ns) / as_ns(*period).max(1) + 1;
                let passed_ns = as_ns(*period).saturating_mul(periods);
                armed.period_ns = armed.period_ns.saturating_add(passed_ns);
            }
            _ => {}
        }
        progress.dump(state, table, number, now_ns);
        if let Some(armed) = progress.armed.get(number) {
            next_ns = next_ns.min(armed.next_look_ns(trigger));
        }
    }
    let sleep_ns = next_ns.saturating_sub(clock::monotonic_raw_ns());
    (next_ns < u64::MAX).then(|| Duration::from_nanos(sleep_ns))
}

/// Makes the dumps that are due, and the one of the exit, or of the signal that ends the process. The error says that the
/// ring file has records that no trace has.
pub(crate) fn at_end(state: &State, table: TableHandle, signal: Option<i32>) -> Result<(), Error> {
    let Some(mut progress) = progress() else {
        let why = "this thread is in the middle of a dump";
        return Err(Error::failed(why, "call it where no dump is under way"));
    };
    progress.is_over = true;
    let now_ns = clock::monotonic_raw_ns();
    let mut is_pending = dump_signal::take_pending();
    for (number, trigger) in triggers().iter().enumerate() {
        if let Some(armed) = progress.armed.get_mut(number) {
            match trigger.event {
                Event::Signal if is_pending => {
                    armed.fire(trigger, now_ns, &|| Due::from_reason(owned("signal")));
                    is_pending = false;
                }
                Event::Call(..) => armed.take_request(state, table, number, trigger, now_ns),
                Event::Exit if signal.is_none() => {
                    armed.due = Some(Due::from_reason(owned("exit")));
                    is_pending = false;
                }
                ref event if signal.is_some() && end_signals::signal_of(event) == signal => {
                    armed.due =
                        signal.map(|signal| Due::from_reason(owned(end_signals::name(signal))));
                    is_pending = false;
                }
                _ => {}
            }
        }
        progress.dump(state, table, number, u64::MAX);
    }
    if is_pending {
        dumping::dump_and_print(state, table, "signal").map(|_| ())?;
    } else if !progress.has_fired && !triggers().is_empty() && dumping::would_have_records(table) {
        messages::warn(format_args!("no trigger fired: {}", in_words()));
    }
    match progress.has_failed {
        true => Err(Error::failed("the last dump of a trigger failed", "")),
        false => Ok(()),
    }
}

impl Progress {
    /// Makes the dump of a trigger if it is due. Returns whether there is a trace.
    fn dump(&mut self, state: &State, table: TableHandle, number: usize, now_ns: u64) -> bool {
        let armed = self.armed.get_mut(number);
        let is_due = |due: &mut Due| due.at_ns <= now_ns;
        let Some(due) = armed.and_then(|armed| armed.due.take_if(is_due)) else {
            return false;
        };
        self.has_fired = true;
        let occasion = Occasion {
            reason: &due.reason,
            marks: due.marks,
            thread: due.thread,
        };
        let result = dumping::dump_with(state, table, &occasion);
        match &result {
            Ok(dump) => {
                let most = state.config.out_most.unwrap_or_default();
                self.trace_files.add(&dump.path, most);
            }
            Err(Error::Failed(failure)) if self.is_failure_printed => {
                messages::info(format_args!("{}", failure.in_full()));
            }
            Err(error) if self.is_failure_printed => messages::info(format_args!("{error}")),
            Err(error) => dumping::print_error(error, occasion.reason),
        }
        self.is_failure_printed = result.is_err();
        self.has_failed = matches!(result, Err(Error::Failed(_)));
        result.is_ok()
    }

    /// Fires if more memory is in use than a trigger says, and was not before.
    fn look_at_memory(&mut self, triggers: &[Trigger], now_ns: u64) {
        if now_ns < self.memory_due_ns {
            return;
        }
        self.memory_due_ns = u64::MAX;
        for (trigger, armed) in triggers.iter().zip(&mut self.armed) {
            let Event::Resident(most) = trigger.event else {
                continue;
            };
            self.memory_due_ns = now_ns.saturating_add(PERIOD_NS);
            let bytes = resident_bytes().unwrap_or(0);
            let is_above = bytes > most;
            let words = || format!("{bytes} bytes are in memory");
            // If the limit forbids it now, the next look tries again.
            let fires = is_above && !armed.is_above;
            armed.is_above = match fires {
                true => armed.fire(trigger, now_ns, &|| Due::from_trigger(trigger, &words())),
                false => is_above,
            };
        }
    }
}

/// How many bytes of the process are in memory.
fn resident_bytes() -> Option<u64> {
    let status = sys::file::kernel_text("/proc/self/status")?;
    let mut lines = text::parts(&status, b'\n');
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes = line.strip_suffix("kB")?;
    Some(text::number(text::trimmed(kilobytes))? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(text: &str) -> Trigger {
        trigger::parse(text).expect("a trigger").remove(0)
    }

    #[test]
    fn a_trigger_fires_once_in_its_limit() {
        let trigger = trigger("a::b>1ms +2s");
        let mut armed = Armed::default();
        let fire = |armed: &mut Armed, s: u64| {
            armed.fire(&trigger, s * 1_000_000_000, &|| {
                Due::from_trigger(&trigger, "")
            })
        };
        assert!(fire(&mut armed, 100));
        let due = armed.due.as_ref().expect("due");
        assert_eq!(due.at_ns, 102_000_000_000);
        assert_eq!(due.reason, "trigger a::b>1ms +2s");
        assert_eq!(armed.next_look_ns(&trigger), 102_000_000_000);
        assert!(!fire(&mut armed, 120), "the first dump is not made yet");
        armed.due = None;
        assert!(!fire(&mut armed, 109));
        assert!(fire(&mut armed, 110));
    }

    #[test]
    fn periods() {
        let trigger = trigger("every 10s");
        let armed = Armed::new(&trigger, 5);
        assert_eq!(armed.next_look_ns(&trigger), 10_000_000_005);
    }

    #[test]
    fn memory_is_measured() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 18));
    }
}
