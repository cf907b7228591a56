//! The time of a thread's calls in which the thread did not run, or nothing is known: added up as the calls end. Nearly
//! all calls lie within one stay of their thread in a state, and cost nothing here. Only calls that were open when the
//! state changed are looked up.

use std::sync::Arc;

use fdr_formats::calls::{CallStack, EdgeStatus, EndedCall, OpenCall, Untimed};
use fdr_formats::packed::{Packed, PackedCall};
use fdr_formats::states::{StateCursor, States, StretchStates};
use fdr_formats::{ThreadId, Ticks, model::State};

/// Ticks of being preempted, of waiting, and of which nothing is known. The rest of a call's ticks is running. Sums may
/// be less than zero on the way, so they wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffCpu(pub(crate) [u64; 3]);

/// Packed calls that are looked at together.
const GROUP: usize = 256;

/// The places in [`OffCpu`].
const PREEMPTED: usize = 0;
const WAITING: usize = 1;
const UNKNOWN: usize = 2;

impl OffCpu {
    /// That many ticks of one kind.
    pub(crate) fn new(kind: Kind, ticks: u64) -> OffCpu {
        let mut away = OffCpu::default();
        away.0[kind.0] = ticks;
        away
    }

    pub(crate) fn add(&mut self, more: &OffCpu) {
        let sums = self.0.iter_mut().zip(more.0);
        sums.for_each(|(sum, more)| *sum = sum.wrapping_add(more));
    }

    /// How many of these ticks were spent in a state. The number wraps where the sums wrap.
    pub(crate) fn part(&self, state: State, ticks: u64) -> u64 {
        let [preempted, waiting, unknown] = self.0;
        match state {
            State::Preempted => preempted,
            State::Waiting => waiting,
            State::Running => {
                let away = preempted.wrapping_add(waiting).wrapping_add(unknown);
                ticks.wrapping_sub(away)
            }
        }
    }

    pub(crate) fn take(&mut self, less: &OffCpu) {
        let sums = self.0.iter_mut().zip(less.0);
        sums.for_each(|(sum, less)| *sum = sum.wrapping_sub(less));
    }
}

impl From<StretchStates> for OffCpu {
    fn from(known: StretchStates) -> OffCpu {
        OffCpu([
            known.spent.preempted.0,
            known.spent.waiting.0,
            known.unknown.0,
        ])
    }
}

/// What a thread does that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind(usize);

impl Kind {
    fn from_state(state: Option<State>) -> Option<Kind> {
        match state {
            Some(State::Running) => None,
            Some(State::Preempted) => Some(Kind(PREEMPTED)),
            Some(State::Waiting) => Some(Kind(WAITING)),
            None => Some(Kind(UNKNOWN)),
        }
    }
}

/// How a number of ticks divides into states. What short calls took is in no call, so the parts may be more than the
/// whole; then they are cut to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) running: u64,
    pub(crate) preempted: u64,
    pub(crate) waiting: u64,
    pub(crate) unknown: u64,
}

impl Split {
    pub(crate) fn new(all: u64, away: &OffCpu) -> Split {
        let [preempted, waiting, unknown] = away.0;
        let unknown = unknown.min(all);
        let waiting = waiting.min(all - unknown);
        let preempted = preempted.min(all - unknown - waiting);
        Split {
            running: all - unknown - waiting - preempted,
            preempted,
            waiting,
            unknown,
        }
    }
}

/// What of a call that ended was not running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// From its entry to its exit.
    pub(crate) total: OffCpu,
    /// To add to its function's own time. It wraps.
    pub(crate) own: OffCpu,
    /// To take from the own time of the call around it, the nearest whose function has times.
    pub(crate) caller: OffCpu,
}

/// One thread.
#[derive(Debug)]
pub(crate) struct Absence {
    cursor: StateCursor,
    untimed: Untimed,
    /// The number of open calls, from the outermost on, that were open at the last change of the state.
    aside: usize,
    /// Ticks of ended calls inside the innermost of these that are already accounted for.
    base: u64,
    /// The time of ended calls around which no call was open.
    orphans: OffCpu,
}

impl Absence {
    pub(crate) fn new(states: &States, thread: ThreadId, untimed: &Untimed) -> Absence {
        Absence {
            cursor: states.cursor(thread),
            untimed: untimed.clone(),
            aside: 0,
            base: 0,
            orphans: OffCpu::default(),
        }
    }

    /// What the thread does now that does not run.
    pub(crate) fn kind(&self) -> Option<Kind> {
        Kind::from_state(self.cursor.current().state)
    }

    /// Whether the thread is still in the state of the moment that was reached last.
    #[inline]
    pub(crate) fn lasts(&self, time: Ticks) -> bool {
        self.cursor.lasts(time)
    }

    /// Whether the thread is in that state.
    pub(crate) fn is_in(&self, state: State) -> bool {
        self.cursor.current().state == Some(state)
    }

    /// What is not known of a stretch of time.
    pub(crate) fn unknown(&self, from: Ticks, until: Ticks) -> Ticks {
        self.cursor.in_stretch(from, until).unknown
    }

    /// Until when that state lasts.
    pub(crate) fn until(&self) -> Ticks {
        self.cursor.current().until
    }

    /// Goes on to the time of the next edge. `take` is called for each open call that made calls which began and ended
    /// in this state. It gets the time of those calls, to subtract it from the own time of the open call. It also gets
    /// the open calls from the outermost one to that one, without untimed calls at the inner end.
    #[cold]
    pub(crate) fn reach<T>(
        &mut self,
        time: Ticks,
        stack: &mut CallStack<T>,
        mut take: impl FnMut(&[OpenCall<T>], &OffCpu),
    ) {
        let open = stack.open();
        if let Some(kind) = self.kind() {
            for place in self.aside..=open.len() {
                let next = open.get(place).map(OpenCall::spent_before);
                let spent = next.unwrap_or(stack.spent_in_calls());
                // The ticks of earlier calls of the same caller.
                let before = if place == self.aside { self.base } else { 0 };
                let spent = OffCpu::new(kind, spent.wrapping_sub(before));
                let around = open.get(..place).unwrap_or(&[]);
                match self.timed(around) {
                    0 => self.orphans.add(&spent),
                    timed => take(&around[..timed], &spent),
                }
            }
        }
        stack.set_aside();
        self.aside = stack.open().len();
        self.base = stack.spent_in_calls();
        self.cursor.reach(time);
    }

    /// How many of the open calls are left without the innermost ones whose functions have no times.
    fn timed<T>(&self, open: &[OpenCall<T>]) -> usize {
        let timed = open
            .iter()
            .rposition(|open| !self.untimed.contains(open.function));
        timed.map_or(0, |place| place + 1)
    }

    /// A call has ended, inside the calls `open`. Returns its parts. Also returns how many open calls there are from
    /// the outermost one to the one from which time is subtracted; 0: from none.
    pub(crate) fn end_call<T>(
        &mut self,
        ended: &EndedCall<T>,
        open: &[OpenCall<T>],
    ) -> (Parts, usize) {
        let is_added = ended.call.entry() == EdgeStatus::Missing && open.len() <= self.aside;
        let is_aside = ended.call.is_aside();
        let kind = self.kind();
        if !is_aside && !is_added {
            // The whole call lies in this state. Its time is subtracted from its caller's own time when the caller or
            // the state ends.
            let in_state = |ticks| kind.map_or(OffCpu::default(), |kind| OffCpu::new(kind, ticks));
            let parts = Parts {
                total: in_state(ended.total()),
                own: in_state(ended.own()),
                caller: OffCpu::default(),
            };
            return (parts, 0);
        }
        let known: OffCpu = self.cursor.in_stretch(ended.call.start, ended.end).into();
        let mut inside = OffCpu::default();
        // The call is around all calls so far. (If it were not, the calls before it would belong to its caller.)
        let is_around = open.is_empty() && !is_aside && ended.call.spent_before() == 0;
        if is_aside || is_around {
            if let Some(kind) = kind {
                inside = OffCpu::new(kind, ended.children.wrapping_sub(self.base));
            }
            self.base = ended.call.spent_before();
            self.aside = open.len();
        }
        self.base = self.base.wrapping_add(ended.total());
        if is_around {
            inside.add(&std::mem::take(&mut self.orphans));
        }
        let mut parts = Parts {
            total: known,
            own: known,
            caller: known,
        };
        parts.own.take(&inside);
        if ended.untimed {
            (parts.own, parts.caller) = (OffCpu::default(), inside);
        }
        let timed = self.timed(open);
        if timed == 0 {
            self.orphans.add(&parts.caller);
        }
        (parts, timed)
    }
}

/// The states of the threads, where the trace knows any.
pub(crate) fn states_of(info: &fdr_formats::TraceInfo) -> Option<Arc<States>> {
    let has = !info.schedule.switches.is_empty();
    has.then(|| Arc::new(States::new(&info.schedule)))
}

/// How many of the calls, from one on, lie before a moment, and the ticks up to the last of these. At least one.
pub(crate) fn lasting(packed: &Packed<'_>, from: usize, base: u64, until: u64) -> (usize, u64) {
    let (mut count, mut ticks) = (0, 0_u64);
    loop {
        let group = packed.part(from + count, GROUP);
        let more: u64 = group.calls().map(PackedCall::delta).sum();
        if group.is_empty() {
            return (count, ticks);
        }
        if base.saturating_add(ticks).saturating_add(more) < until {
            (count, ticks) = (count + group.len(), ticks + more);
            continue;
        }
        for call in group.calls() {
            let next = ticks + call.delta();
            if count > 0 && base.saturating_add(next) >= until {
                break;
            }
            (count, ticks) = (count + 1, next);
        }
        return (count, ticks);
    }
}
