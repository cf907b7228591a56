//! For which locks a thread waited, and who held them. Waits of a thread do not overlap.

use fdr_formats::ThreadId;
use fdr_formats::notes::{Note, reason, thread_state};

/// Waits of a thread that are kept.
const MAX_WAITS: usize = 200_000;

/// A wait for a lock, or several that are drawn as one: the longest gives the names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wait {
    pub(super) from: u64,
    pub(super) until: u64,
    /// 0: not known.
    pub(super) holder: ThreadId,
    /// The name of the lock, and the function that the holder was in when the wait began; 0: not known.
    pub(super) name: u32,
    pub(super) function: u32,
    pub(super) count: u32,
}

impl Wait {
    fn ticks(&self) -> u64 {
        self.until.saturating_sub(self.from)
    }
}

/// The waits of one thread, in order of time.
#[derive(Debug, Default)]
pub(super) struct Waits {
    list: Vec<Wait>,
    /// The wait that has not ended.
    open: Option<Wait>,
    /// Waits that were too many to keep.
    pub(super) more: u64,
}

impl Waits {
    /// Takes a note of the thread.
    pub(super) fn note(&mut self, time: u64, note: &Note<'_>) {
        let Note::ThreadState {
            holder,
            name,
            state,
            reason: why,
            function,
            waited,
            ..
        } = *note
        else {
            return;
        };
        self.open = None;
        let wait = Wait {
            from: time.saturating_sub(waited),
            until: time,
            holder: ThreadId(holder),
            name,
            function,
            count: 1,
        };
        match state {
            _ if why != reason::LOCK => {}
            thread_state::BLOCKED => self.open = Some(wait),
            thread_state::RUNNING if waited > 0 => self.push(wait),
            _ => {}
        }
    }

    fn push(&mut self, wait: Wait) {
        match self.list.len() < MAX_WAITS {
            true => self.list.push(wait),
            false => self.more += 1,
        }
    }

    /// A wait that has not ended lasts until then.
    pub(super) fn finish(&mut self, until: u64) {
        if let Some(open) = self.open.take() {
            let until = until.max(open.until);
            self.push(Wait { until, ..open });
        }
    }

    /// The waits of a stretch. Those that are within a pixel are joined.
    pub(super) fn between(&self, from: u64, to: u64, pixel: u64) -> Vec<Wait> {
        let first = self.list.partition_point(|wait| wait.until < from);
        let mut kept: Vec<Wait> = Vec::new();
        let mut longest = 0;
        let of_stretch = self.list.get(first..).unwrap_or(&[]).iter();
        for wait in of_stretch.take_while(|wait| wait.from <= to) {
            let last = kept.last_mut();
            match last.filter(|last| wait.until.saturating_sub(last.from) < pixel) {
                Some(last) => {
                    let (from, count) = (last.from, last.count.saturating_add(1));
                    if wait.ticks() > longest {
                        (*last, longest) = (*wait, wait.ticks());
                    }
                    (last.from, last.until, last.count) = (from, wait.until, count);
                }
                None => {
                    longest = wait.ticks();
                    kept.push(*wait);
                }
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(state: u8, reason: u8, holder: u64, waited: u64) -> Note<'static> {
        Note::ThreadState {
            object: 1,
            holder,
            name: 5,
            state,
            reason,
            function: 2,
            waited,
        }
    }

    #[test]
    fn waits_for_locks_are_kept_also_the_last_one() {
        let mut waits = Waits::default();
        let (blocked, running) = (thread_state::BLOCKED, thread_state::RUNNING);
        for (time, note) in [
            (100, note(blocked, reason::LOCK, 8, 0)),
            (150, note(running, reason::LOCK, 8, 50)),
            (170, note(running, reason::LOCK, 9, 10)),
            (300, note(running, reason::CHANNEL, 9, 100)),
            (400, note(blocked, reason::LOCK, 7, 0)),
        ] {
            waits.note(time, &note);
        }
        waits.finish(500);
        let seen = |pixel| {
            let waits = waits.between(120, 450, pixel).into_iter();
            let fields = waits.map(|wait| (wait.from, wait.until, wait.holder.0, wait.count));
            fields.collect::<Vec<_>>()
        };
        assert_eq!(
            seen(1),
            [(100, 150, 8, 1), (160, 170, 9, 1), (400, 500, 7, 1)]
        );
        assert_eq!(seen(80), [(100, 170, 8, 2), (400, 500, 7, 1)]);
    }
}
