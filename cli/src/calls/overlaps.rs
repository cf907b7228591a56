//! What other threads did during slow calls, and during usual ones.

use fdr_formats::calls::EndedCall;
use fdr_formats::model::NoteKind;
use fdr_formats::notes::Note;
use fdr_formats::states::States;
use fdr_formats::{FunctionId, ThreadId, Ticks};
use foldhash::{HashMap, HashMapExt};

use crate::stacks::Pass;

/// A stretch of time, and the thread that is looked at in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stretch {
    pub(crate) thread: ThreadId,
    pub(crate) start: Ticks,
    pub(crate) end: Ticks,
}

/// Stretches in the order of their beginnings, which may overlap.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    list: Vec<Stretch>,
    /// For each stretch, the latest end of all stretches up to this one.
    ends: Vec<Ticks>,
}

impl Stretches {
    pub(crate) fn new(mut list: Vec<Stretch>) -> Stretches {
        list.sort_by_key(|stretch| (stretch.start, stretch.end, stretch.thread));
        let mut latest = Ticks(0);
        let ends = list.iter().map(|stretch| {
            latest = latest.max(stretch.end);
            latest
        });
        Stretches {
            ends: ends.collect(),
            list,
        }
    }

    /// The place of a stretch.
    pub(crate) fn place(&self, stretch: &Stretch) -> Option<usize> {
        let key = |stretch: &Stretch| (stretch.start, stretch.end, stretch.thread);
        self.list.binary_search_by_key(&key(stretch), key).ok()
    }

    /// Places of the stretches of other threads that a call overlaps, with the time that they share.
    fn overlaps(
        &self,
        thread: ThreadId,
        start: Ticks,
        end: Ticks,
    ) -> impl Iterator<Item = (usize, Ticks, Ticks)> {
        let last = self.list.partition_point(|stretch| stretch.start < end);
        let places = (0..last).rev().take_while(move |&at| self.ends[at] > start);
        places.filter_map(move |at| {
            let stretch = self.list[at];
            let (from, until) = (start.max(stretch.start), end.min(stretch.end));
            (stretch.thread != thread && from < until).then_some((at, from, until))
        })
    }
}

/// How long a function was open on a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    /// The ticks. If the function calls itself, those of all its open calls together.
    pub(crate) ticks: u64,
    /// How many of these ticks the thread ran, if its states are known.
    pub(crate) running: u64,
    /// Open calls around it, at most.
    pub(crate) depth: usize,
}

/// By place of the stretch, thread and function.
pub(crate) type Presences = HashMap<(usize, ThreadId, FunctionId), Presence>;

/// By place of the stretch and thread, the ticks that the thread waited for something which that stretch's thread held.
pub(crate) type WaitTicks = HashMap<(usize, ThreadId), u64>;

/// The pass.
pub(crate) struct OverlapPass<'a> {
    stretches: &'a Stretches,
    states: Option<&'a States>,
    thread: ThreadId,
    presences: Presences,
    waits_for_it: WaitTicks,
}

impl<'a> OverlapPass<'a> {
    pub(crate) fn new(stretches: &'a Stretches, states: Option<&'a States>) -> OverlapPass<'a> {
        OverlapPass {
            stretches,
            states,
            thread: ThreadId::default(),
            presences: HashMap::new(),
            waits_for_it: HashMap::new(),
        }
    }

    /// Adds up what several workers saw.
    pub(crate) fn gather(passes: Vec<OverlapPass<'_>>) -> (Presences, WaitTicks) {
        let (mut presences, mut waits_for_it) = (Presences::new(), WaitTicks::new());
        for pass in passes {
            for (key, more) in pass.presences {
                let sum = presences.entry(key).or_default();
                sum.ticks = sum.ticks.saturating_add(more.ticks);
                sum.running = sum.running.saturating_add(more.running);
                sum.depth = sum.depth.max(more.depth);
            }
            for (key, ticks) in pass.waits_for_it {
                *waits_for_it.entry(key).or_default() += ticks;
            }
        }
        (presences, waits_for_it)
    }
}

impl Pass for OverlapPass<'_> {
    type Data = ();

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn note(&mut self, (): (), time: Ticks, kind: NoteKind, body: &[u8]) {
        let Some(Note::ThreadState { holder, waited, .. }) = Note::decode(kind, body) else {
            return;
        };
        if holder == 0 || waited == 0 {
            return;
        }
        let begin = Ticks(time.0.saturating_sub(waited));
        for (place, from, until) in self.stretches.overlaps(self.thread, begin, time) {
            let is_by = |stretch: &Stretch| stretch.thread.0 == holder;
            if self.stretches.list.get(place).is_some_and(is_by) {
                *self.waits_for_it.entry((place, self.thread)).or_default() += until.since(from).0;
            }
        }
    }

    fn ended(&mut self, ended: &EndedCall<()>, _: bool) {
        if ended.untimed {
            return;
        }
        let (start, end) = (ended.call.start, ended.end);
        for (place, from, until) in self.stretches.overlaps(self.thread, start, end) {
            let running = self
                .states
                .map(|states| states.in_stretch(self.thread, from, until));
            let running = running.map_or(0, |known| known.spent.running.0);
            let presence = self
                .presences
                .entry((place, self.thread, ended.call.function));
            let presence = presence.or_default();
            presence.ticks = presence.ticks.saturating_add(until.since(from).0);
            presence.running = presence.running.saturating_add(running);
            presence.depth = presence.depth.max(ended.depth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_overlaps_the_stretches_of_other_threads() {
        let stretch = |thread, start, end| Stretch {
            thread: ThreadId(thread),
            start: Ticks(start),
            end: Ticks(end),
        };
        let all = [stretch(1, 0, 100), stretch(1, 10, 20), stretch(2, 50, 60)];
        let stretches = Stretches::new(all.to_vec());
        let overlaps = |thread, start, end| -> Vec<(usize, u64)> {
            let found = stretches.overlaps(ThreadId(thread), Ticks(start), Ticks(end));
            found
                .map(|(at, from, until)| (at, until.since(from).0))
                .collect()
        };
        assert_eq!(overlaps(3, 15, 55), [(2, 5), (1, 5), (0, 40)]);
        assert_eq!(overlaps(1, 15, 55), [(2, 5)]);
        assert_eq!(overlaps(2, 90, 300), [(0, 10)]);
        assert_eq!(overlaps(3, 100, 200), []);
        assert_eq!(stretches.place(&all[2]), Some(2));
    }
}
