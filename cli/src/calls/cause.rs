//! Why a call was slow. The excess is the time beyond the usual time. It is divided among the calls inside. While one
//! of these has most of the excess, the search goes on inside that call.

use std::cmp::Ordering;

use fdr_formats::{FunctionId, ThreadId};
use foldhash::{HashMap, HashSet};

use super::arguments::CallNotes;
use super::overlaps::{Presences, WaitTicks};
use super::tree::Tree;
use super::usual::Usual;

/// A cause has at least this part of the excess.
const MIN_PART: f64 = 0.5;
/// The least number of usual calls with records for which the usual parts are measured. Below it, they are estimated.
const ENOUGH: u64 = 5;
/// A function was called too often if its number of calls is the usual number times this factor, or more.
const TOO_OFTEN: f64 = 3.0;
/// The factor by which the number of calls must exceed the usual number to count as larger.
const MORE_CALLS: f64 = 1.5;
/// A call of another thread is reported under two conditions. It takes at least the share `PRESENT` of the slow call's
/// time. This share exceeds the usual share by at least `MORE`.
const PRESENT: f64 = 0.5;
const MORE: f64 = 0.3;
/// How many calls inside are named if none of them has most of the excess.
const NAMED: usize = 3;

/// All calls on one path of a slow call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) function: FunctionId,
    /// The path's place in the tree.
    pub(crate) place: u32,
    pub(crate) calls: u64,
    /// Times in ns. The usual values are those within one usual call of the outermost function.
    pub(crate) total: f64,
    pub(crate) usual: f64,
    pub(crate) usual_calls: f64,
    own: f64,
    usual_own: f64,
    short: f64,
    usual_short: f64,
}

impl Step {
    pub(crate) fn excess(&self) -> f64 {
        self.total - self.usual
    }
}

/// Where the excess is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// There is none: the call took no longer than usual.
    None,
    /// In the last function itself: not in traced calls that it made.
    Itself,
    /// The last function was called more often than usual.
    TooOften,
    /// In calls of the last function that left no records.
    ShortCalls,
    /// In calls of functions that a pool's threads run as jobs, with more of these calls than usual. A thread that
    /// waits for its own jobs runs other jobs meanwhile. The trace does not say for which caller a job runs.
    OtherWork,
    /// No call has most of it.
    Spread,
}

/// Where the excess of a slow call is.
#[derive(Clone, Debug)]
pub(crate) struct Explanation {
    /// From the function inwards.
    pub(crate) path: Vec<Step>,
    /// For [`Cause::Spread`]: the calls inside the last step with the largest parts of the excess. For
    /// [`Cause::OtherWork`]: the calls that are such work.
    pub(crate) spread: Vec<Step>,
    pub(crate) cause: Cause,
    /// The part of the excess that the cause has.
    pub(crate) share: f64,
}

/// The arguments and results of the calls on the path of a slow call that have some, from the call inwards.
pub(crate) fn arguments(tree: &Tree, explained: &Explanation) -> Vec<CallNotes> {
    let nodes = explained
        .path
        .iter()
        .filter_map(|step| tree.nodes.get(step.place as usize));
    nodes
        .filter(|node| node.calls == 1)
        .filter_map(|node| CallNotes::new(node.function, node.notes.clone()))
        .collect()
}

/// The usual parts of a call. They come from usual calls with records. If there are too few such calls, the parts are
/// estimated.
pub(crate) struct Parts<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) calls: u64,
    pub(crate) of: &'a HashMap<FunctionId, Usual>,
    /// Functions whose calls several threads make outermost.
    pub(crate) jobs: &'a HashSet<FunctionId>,
    /// Ns for a tick.
    pub(crate) scale: f64,
}

impl Parts<'_> {
    fn is_measured(&self) -> bool {
        self.calls >= ENOUGH
    }

    /// Whether the calls of a step may be work for another call.
    fn is_other_work(&self, step: &Step) -> bool {
        let is_more = step.calls as f64 > MORE_CALLS * step.usual_calls;
        is_more && self.jobs.contains(&step.function)
    }

    /// A path of the slow call, with what is usual for it. `known`: its place among the usual paths.
    fn step(&self, slow: &Tree, at: u32, known: Option<u32>, root: FunctionId) -> Step {
        let node = &slow.nodes[at as usize];
        let ns = |ticks: u64| ticks as f64 * self.scale;
        let mut step = Step {
            function: node.function,
            place: at,
            calls: node.calls,
            total: ns(node.total),
            own: ns(node.own),
            short: ns(node.short),
            usual: 0.0,
            usual_calls: 0.0,
            usual_own: 0.0,
            usual_short: 0.0,
        };
        if self.is_measured() {
            if let Some(usual) = known.and_then(|place| self.tree.nodes.get(place as usize)) {
                let mean = |ticks: u64| ns(ticks) / self.calls as f64;
                step.usual = mean(usual.total);
                step.usual_own = mean(usual.own);
                step.usual_short = mean(usual.short);
                step.usual_calls = usual.calls as f64 / self.calls as f64;
            }
            return step;
        }
        // A function that is called from elsewhere, too, would look as if it were called more often here.
        let usual_of = |function| self.of.get(&function).copied().unwrap_or_default();
        let (root, usual) = (usual_of(root), usual_of(node.function));
        let calls = usual.calls as f64 / root.calls.max(1) as f64;
        step.usual_calls = calls.max(1.0);
        step.usual = (usual.p50 as f64 * step.usual_calls).min(root.p50 as f64);
        step.usual_own = step.usual.min(step.own);
        step
    }
}

/// Divides the excess of a slow call.
pub(crate) fn explain(slow: &Tree, parts: &Parts<'_>) -> Explanation {
    let root = slow.nodes[0].function;
    let mut known = Some(0);
    let mut at = 0;
    let mut path = vec![parts.step(slow, at, known, root)];
    let excess = path[0].excess();
    let mut found = Explanation {
        path: Vec::new(),
        spread: Vec::new(),
        cause: Cause::None,
        share: 0.0,
    };
    if excess <= 0.0 {
        found.path = path;
        return found;
    }
    loop {
        let mut inside: Vec<(Step, u32, Option<u32>)> = Vec::new();
        for &place in &slow.nodes[at as usize].inside {
            let function = slow.nodes[place as usize].function;
            let usual = known.and_then(|known| parts.tree.find(known, function));
            inside.push((parts.step(slow, place, usual, root), place, usual));
        }
        inside.sort_by(|one, other| other.0.excess().total_cmp(&one.0.excess()));
        let last = path[path.len() - 1];
        match inside.first() {
            Some((step, place, usual)) if step.excess() >= MIN_PART * excess => {
                path.push(*step);
                (at, known) = (*place, *usual);
                if parts.is_other_work(step) {
                    found.cause = Cause::OtherWork;
                    found.share = step.excess() / excess;
                    break;
                }
                if is_too_often(step) {
                    found.cause = Cause::TooOften;
                    found.share = step.excess() / excess;
                    break;
                }
            }
            _ => {
                let own = last.own - last.usual_own;
                let short = last.short - last.usual_short;
                let inside = inside.iter().map(|(step, ..)| *step);
                let inside: Vec<Step> = inside.filter(|step| step.excess() > 0.0).collect();
                let other = inside.iter().filter(|step| parts.is_other_work(step));
                let of_others: f64 = other.clone().map(Step::excess).sum();
                (found.cause, found.share) = if own >= MIN_PART * excess {
                    (Cause::Itself, own / excess)
                } else if short >= MIN_PART * excess {
                    (Cause::ShortCalls, short / excess)
                } else if of_others >= MIN_PART * excess {
                    found.spread = other.take(NAMED).copied().collect();
                    (Cause::OtherWork, of_others / excess)
                } else {
                    found.spread = inside.into_iter().take(NAMED).collect();
                    (Cause::Spread, last.excess() / excess)
                };
                break;
            }
        }
    }
    found.path = path;
    found
}

/// Whether the calls of a step are about as long as usual, but many more.
fn is_too_often(step: &Step) -> bool {
    if step.usual_calls == 0.0 || step.usual == 0.0 {
        return false;
    }
    let each = step.total / step.calls.max(1) as f64;
    step.calls as f64 >= TOO_OFTEN * step.usual_calls.max(1.0)
        && each <= TOO_OFTEN * step.usual / step.usual_calls
}

/// What another thread did during a slow call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ConcurrentCall {
    pub(crate) thread: ThreadId,
    pub(crate) function: FunctionId,
    /// Ticks of the slow call.
    pub(crate) ticks: u64,
    /// How many of these ticks the other thread ran, if its states are known.
    pub(crate) running: u64,
    /// The part of a usual call during which some thread does that.
    pub(crate) usual: f64,
}

/// The stretches that are compared: places in the list of stretches, with their lengths in ticks.
pub(crate) struct Compared<'a> {
    pub(crate) slow: (usize, u64),
    pub(crate) usual: &'a [(usize, u64)],
    /// Functions of the slow call's own path: a thread that waits in the same function explains nothing.
    pub(crate) own: &'a [Step],
    /// The part of all time during which a function is open on some thread.
    pub(crate) always: &'a dyn Fn(FunctionId) -> f64,
    /// A thread that waited for this one explains nothing, either.
    pub(crate) waits_for_it: &'a WaitTicks,
}

/// What another thread did during a slow call, if no thread does it for so long during usual calls. Of several
/// functions, the innermost one.
pub(crate) fn meanwhile(presences: &Presences, compared: &Compared<'_>) -> Option<ConcurrentCall> {
    let part = |place: usize, length: u64, thread, function| -> f64 {
        let presence = presences.get(&(place, thread, function));
        let ticks = presence.map_or(0, |presence| presence.ticks.min(length));
        ticks as f64 / length.max(1) as f64
    };
    let mut threads: Vec<ThreadId> = presences.keys().map(|&(_, thread, _)| thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let usual = |function| -> f64 {
        if (compared.usual.len() as u64) < ENOUGH {
            return (compared.always)(function);
        }
        let most = |&(place, length): &(usize, u64)| {
            let parts = threads
                .iter()
                .map(|&thread| part(place, length, thread, function));
            parts.fold(0.0, f64::max)
        };
        compared.usual.iter().map(most).sum::<f64>() / compared.usual.len() as f64
    };
    let (slow, length) = compared.slow;
    let here = presences.iter().filter(|((place, ..), _)| *place == slow);
    let mut found: Vec<(f64, usize, ConcurrentCall)> = Vec::new();
    for (&(_, thread, function), presence) in here {
        let present = part(slow, length, thread, function);
        let is_own = compared.own.iter().any(|step| step.function == function);
        let waits_for_it = compared.waits_for_it.get(&(slow, thread)).copied();
        let is_waiting = waits_for_it.is_some_and(|ticks| ticks as f64 >= MIN_PART * length as f64);
        if present < PRESENT || is_own || is_waiting {
            continue;
        }
        let usual = usual(function);
        if present - usual >= MORE {
            let ticks = presence.ticks.min(length);
            let what = ConcurrentCall {
                thread,
                function,
                ticks,
                running: presence.running.min(ticks),
                usual,
            };
            found.push((present - usual, presence.depth, what));
        }
    }
    // A thread that ran explains more than one that waited, too.
    let ran = |what: &ConcurrentCall| what.running as f64 >= MIN_PART * what.ticks as f64;
    if found.iter().any(|(.., what)| ran(what)) {
        found.retain(|(.., what)| ran(what));
    }
    let best = found.iter().map(|(score, ..)| *score).fold(0.0, f64::max);
    let near = found.into_iter().filter(|(score, ..)| *score >= 0.9 * best);
    let order =
        |one: &(f64, usize, ConcurrentCall), other: &(f64, usize, ConcurrentCall)| -> Ordering {
            let by_depth = one.1.cmp(&other.1).then(one.0.total_cmp(&other.0));
            let ids = |meanwhile: &ConcurrentCall| (meanwhile.thread, meanwhile.function.0);
            by_depth.then_with(|| ids(&other.2).cmp(&ids(&one.2)))
        };
    near.max_by(order).map(|(.., what)| what)
}
