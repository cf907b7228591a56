//! What the thread of a slow call did: it ran, was preempted, or waited. Also which thread had its CPU meanwhile.

use fdr_formats::model::{self, Schedule, State};
use fdr_formats::states::{States, StretchStates};
use fdr_formats::{CpuId, FunctionId, ThreadId, Ticks, TraceInfo};
use foldhash::{HashMap, HashMapExt};

use super::cause::{Cause, Explanation};
use super::overlaps::Presences;
use super::slow_call::SlowCall;
use super::tree::Tree;
use crate::off_cpu::Split;
use crate::report::names::{name_of, thread_name};
use crate::ui;

/// A state explains the excess if it has at least this part of it. A thread preempted the call if it had the CPU for at
/// least this part of the preemptions. A function of that thread is named if it ran for at least this part of the time of
/// the function that ran longest.
const MIN_PART: f64 = 0.5;
/// If a call ran for at least this part of the excess, its state counts as computing, even if it was preempted for
/// longer. A thread that computes for long is preempted now and then.
const COMPUTED: f64 = 0.25;
/// The sentence about a thread that computed also mentions preemptions if they took at least this part of the time.
const MIN_PREEMPTED: f64 = 0.2;
/// The words mention a call's page faults from this number on.
const MANY_FAULTS: u64 = 1024;

/// The threads that had the CPU while a call was preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preemptor {
    /// A thread of the trace, which was in that function.
    Thread(ThreadId, Option<FunctionId>),
    /// Several threads of the trace, one after the other. The function is there if all of them were in the same one.
    Several(Option<FunctionId>),
    /// None of the trace.
    Another,
}

/// What the thread did during a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallStates {
    pub(crate) stretch: StretchStates,
    /// The state that most of the excess was in.
    pub(crate) excess: Option<State>,
    /// The threads that had the CPU while this thread was preempted. `None`: it was not.
    pub(crate) by: Option<Preemptor>,
    /// About: each sample stands for several.
    pub(crate) page_faults: u64,
}

/// The data by which the preemptor is found.
pub(crate) struct PreemptionContext<'a> {
    pub(crate) states: &'a States,
    pub(crate) schedule: &'a Schedule,
    /// The place of the call among the stretches that `presences` is of.
    pub(crate) place: Option<usize>,
    pub(crate) presences: &'a Presences,
}

impl CallStates {
    /// `scale`: ns for a tick.
    pub(crate) fn new(
        call: &SlowCall,
        tree: &Tree,
        explained: &Explanation,
        scale: f64,
        around: &PreemptionContext<'_>,
    ) -> CallStates {
        let stretch = around.states.in_stretch(call.thread, call.start, call.end);
        let is_inside = |sample: &&model::Sample| {
            let is_fault = sample.cause == model::Cause::PageFault;
            let is_there = call.start <= sample.time && sample.time <= call.end;
            is_fault && is_there && sample.thread == call.thread
        };
        let faults = around.schedule.samples.iter().filter(is_inside);
        CallStates {
            stretch,
            excess: state_of_excess(tree, explained, scale),
            by: (stretch.spent.preempted.0 > 0).then(|| preempted_by(call, around)),
            page_faults: faults.count() as u64 * model::FAULTS_OF_SAMPLE,
        }
    }

    /// `: the thread waited`, for the sentence. Empty: that is not known.
    pub(crate) fn in_words(&self, info: &TraceInfo) -> String {
        match (self.excess, self.by) {
            (Some(State::Waiting), _) => ": the thread waited".to_owned(),
            (Some(State::Preempted), Some(by)) => {
                format!(": the thread was preempted by {}", by.in_words(info))
            }
            (Some(State::Preempted), None) => ": the thread was preempted".to_owned(),
            (Some(State::Running), _) => {
                let spent = &self.stretch.spent;
                let time = |ticks| ui::duration(info.clock.nanos(ticks).0);
                let was_often_preempted =
                    spent.preempted.0 as f64 >= MIN_PREEMPTED * spent.total().0 as f64;
                let mut words = ": the thread computed".to_owned();
                if was_often_preempted {
                    words += &format!(" for {}", time(spent.running));
                }
                if self.page_faults >= MANY_FAULTS {
                    words += &format!(", with about {} page faults", ui::count(self.page_faults));
                }
                if let Some(by) = self.by.filter(|_| was_often_preempted) {
                    let (preempted, by) = (time(spent.preempted), by.in_words(info));
                    words += &format!(", and was preempted for {preempted} by {by}");
                }
                words
            }
            (None, _) => String::new(),
        }
    }

    /// `running 3.1 ms · preempted 0.2 ms · waiting 409.0 ms`.
    pub(crate) fn line(&self, info: &TraceInfo) -> String {
        let spent = &self.stretch.spent;
        let time = |ticks| ui::duration(info.clock.nanos(ticks).0);
        let mut parts: Vec<String> = State::ALL
            .map(|state| format!("{} {}", state.name(), time(spent.in_state(state))))
            .to_vec();
        if self.stretch.unknown > Ticks(0) {
            parts.push(format!("not known {}", time(self.stretch.unknown)));
        }
        if self.page_faults >= MANY_FAULTS {
            parts.push(format!("about {} page faults", ui::count(self.page_faults)));
        }
        if let Some(by) = self.by.filter(|_| self.excess != Some(State::Preempted)) {
            let is_long = spent.preempted.0 as f64 >= 0.01 * spent.total().0 as f64;
            if is_long {
                parts.push(format!("preempted by {}", by.in_words(info)));
            }
        }
        parts.join(" \u{b7} ")
    }
}

impl Preemptor {
    fn in_words(self, info: &TraceInfo) -> String {
        match self {
            Preemptor::Another => "another process".to_owned(),
            Preemptor::Several(None) => "several threads of the program".to_owned(),
            Preemptor::Several(Some(function)) => {
                let function = name_of(info, function);
                format!("several threads of the program in {}", ui::clean(&function))
            }
            Preemptor::Thread(thread, None)
                if !info.threads.iter().any(|known| known.id == thread) =>
            {
                format!("thread {thread}, which has no traced calls")
            }
            Preemptor::Thread(thread, None) => thread_name(info, thread),
            Preemptor::Thread(thread, Some(function)) => {
                let function = name_of(info, function);
                format!("{} in {}", thread_name(info, thread), ui::clean(&function))
            }
        }
    }
}

/// The state in which the thread was for most of the excess of the last function of the path. The time is that of the
/// function itself, or includes the calls inside.
fn state_of_excess(tree: &Tree, explained: &Explanation, scale: f64) -> Option<State> {
    let mut place = 0;
    for step in explained.path.get(1..)? {
        place = tree.find(place, step.function)?;
    }
    let node = tree.nodes.get(place as usize)?;
    let (mut ticks, mut away) = (node.total, node.away);
    if explained.cause == Cause::Itself {
        ticks = node.own;
        let inside = node
            .inside
            .iter()
            .filter_map(|&at| tree.nodes.get(at as usize));
        inside.for_each(|inside| away.take(&inside.away));
    }
    let split = Split::new(ticks, &away);
    let excess = explained.path.last()?.excess();
    let parts = [
        (State::Running, split.running),
        (State::Preempted, split.preempted),
        (State::Waiting, split.waiting),
    ];
    let (mut state, ticks) = parts.into_iter().max_by_key(|(_, ticks)| *ticks)?;
    if state == State::Preempted && split.running as f64 * scale >= COMPUTED * excess {
        state = State::Running;
    }
    (explained.cause != Cause::None && ticks as f64 * scale >= MIN_PART * excess).then_some(state)
}

/// Which thread ran on the CPU that the call's thread was taken from.
fn preempted_by(call: &SlowCall, around: &PreemptionContext<'_>) -> Preemptor {
    let states = around.states;
    let stays = states.between(call.thread, call.start, call.end);
    let away = stays.filter(|stay| stay.state == Some(State::Preempted));
    let away: Vec<(Ticks, Ticks, CpuId)> = away
        .filter_map(|stay| Some((stay.from, stay.until, stay.cpu?)))
        .collect();
    let all: u64 = away
        .iter()
        .map(|(from, until, _)| until.since(*from).0)
        .sum();
    let mut on_it: HashMap<ThreadId, u64> = HashMap::new();
    for thread in states.threads() {
        for (from, until, cpu) in &away {
            let stays = states.between(thread, *from, *until);
            let there =
                stays.filter(|stay| stay.state == Some(State::Running) && stay.cpu == Some(*cpu));
            let ticks: u64 = there.map(|stay| stay.until.since(stay.from).0).sum();
            *on_it.entry(thread).or_default() += ticks;
        }
    }
    on_it.remove(&call.thread);
    let of_all = |ticks: u64| ticks as f64 >= MIN_PART * all.max(1) as f64;
    let together: u64 = on_it.values().sum();
    let most = on_it.iter().map(|(thread, ticks)| (*thread, *ticks));
    let most = most.max_by_key(|(thread, ticks)| (*ticks, std::cmp::Reverse(*thread)));
    match most {
        Some((thread, ticks)) if of_all(ticks) => {
            Preemptor::Thread(thread, function_of(thread, around))
        }
        _ if of_all(together) => {
            let mut in_functions: HashMap<FunctionId, u64> = HashMap::new();
            for (thread, ticks) in on_it {
                if let Some(function) = function_of(thread, around) {
                    *in_functions.entry(function).or_default() += ticks;
                }
            }
            let same = in_functions.into_iter().find(|(_, ticks)| of_all(*ticks));
            Preemptor::Several(same.map(|(function, _)| function))
        }
        _ => Preemptor::Another,
    }
}

/// The innermost function that a thread was in for most of the time that it ran in during the call.
fn function_of(thread: ThreadId, around: &PreemptionContext<'_>) -> Option<FunctionId> {
    let here = around
        .presences
        .iter()
        .filter(|((place, of, _), _)| Some(*place) == around.place && *of == thread);
    let here: Vec<_> = here
        .map(|((.., function), seen)| (*function, *seen))
        .collect();
    let longest = here.iter().map(|(_, seen)| seen.running).max()?;
    let most = here
        .iter()
        .filter(|(_, seen)| seen.running as f64 >= MIN_PART * longest as f64);
    let innermost = most.max_by_key(|(function, seen)| (seen.depth, seen.running, function.0));
    innermost.map(|(function, _)| *function)
}
