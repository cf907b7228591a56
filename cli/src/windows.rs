//! The stretch of time of which a thread's records are all there. A thread whose ring was overwritten has lost its
//! older records. So two threads may show different stretches.

use fdr_formats::{Clock, Source, Thread, Ticks};

use crate::tally::Tally;
use crate::ui;

/// If the windows of threads differ by more than this share of the trace, in percent, a line says so.
const NOTABLE: u64 = 10;

/// The windows of all threads, put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// First and last record of the trace.
    pub(crate) first: Ticks,
    pub(crate) last: Ticks,
    /// From here on, nothing of any thread is overwritten.
    common: Ticks,
    /// The thread whose records begin then.
    name: String,
    /// Threads whose older records are overwritten, so that they begin much later than the first.
    late: u64,
}

/// Whether older records of the thread are overwritten.
pub(crate) fn is_cut(thread: &Thread) -> bool {
    thread.counts.is_some_and(|counts| counts.overwritten > 0)
}

impl Windows {
    /// Of threads, with their first and last records. `None`: there are no records.
    pub(crate) fn from_threads<'a>(
        threads: impl Iterator<Item = (&'a Thread, Option<Ticks>, Ticks)> + Clone,
    ) -> Option<Windows> {
        let seen = threads.filter_map(|(thread, first, last)| Some((thread, first?, last)));
        let first = seen.clone().map(|(_, first, _)| first).min()?;
        let last = seen.clone().map(|(_, _, last)| last).max()?;
        let cut = seen.filter(|(thread, ..)| is_cut(thread));
        let latest = cut.clone().max_by_key(|(_, first, _)| *first);
        let notable = last.since(first).0 / 100 * NOTABLE;
        let late = cut.filter(|(_, begin, _)| begin.since(first).0 > notable);
        Some(Windows {
            first,
            last,
            common: latest.map_or(first, |(_, begin, _)| begin),
            name: latest.map_or_else(String::new, |(thread, ..)| name(thread)),
            late: late.count() as u64,
        })
    }

    /// Of a trace, all of which is read.
    pub(crate) fn of_trace(source: &dyn Source) -> Result<Option<Windows>, fdr_formats::Error> {
        Ok(Tally::count(source)?.windows())
    }

    /// Where the stretch begins that all threads have.
    pub(crate) fn common(&self) -> Ticks {
        self.common
    }

    /// How much all threads have, in words: `the last 2.934 ms of 351.1 ms`.
    pub(crate) fn common_in_words(&self, clock: &Clock) -> String {
        let time = |ticks| ui::duration(clock.nanos(ticks).0);
        let (common, all) = (self.last.since(self.common), self.last.since(self.first));
        match self.common <= self.first {
            true => format!("all of {}", time(all)),
            false => format!("the last {} of {}", time(common), time(all)),
        }
    }

    /// Where the windows differ much: a line that says so.
    pub(crate) fn note(&self, clock: &Clock) -> Option<String> {
        if self.late == 0 {
            return None;
        }
        let more = match self.late - 1 {
            0 => String::new(),
            more => format!(" and {}", ui::things(more, "more thread")),
        };
        Some(format!(
            "windows differ: older records of {}{more} are overwritten, so that all threads have only {}; \
             sums over threads mix different stretches of time",
            self.name,
            self.common_in_words(clock)
        ))
    }
}

/// `busy (thread 7)`.
pub(crate) fn name(thread: &Thread) -> String {
    match ui::clean(&thread.name) {
        name if name.is_empty() => format!("thread {}", thread.id),
        name => format!("{name} (thread {})", thread.id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fdr_formats::ThreadId;
    use fdr_formats::model::Counts;

    fn thread(id: u64, overwritten: u64) -> Thread {
        Thread {
            id: ThreadId(id),
            name: format!("t{id}"),
            counts: Some(Counts {
                overwritten,
                ..Counts::default()
            }),
            ..Thread::default()
        }
    }

    fn windows(threads: &[(Thread, Option<u64>, u64)]) -> Option<Windows> {
        let each = threads.iter();
        Windows::from_threads(
            each.map(|(thread, first, last)| (thread, first.map(Ticks), Ticks(*last))),
        )
    }

    #[test]
    fn only_overwritten_records_make_a_window_shorter() {
        let found = windows(&[
            (thread(1, 0), Some(1000), 1500),
            (thread(2, 0), Some(9000), 9100),
            (thread(3, 0), None, 0),
        ]);
        let found = found.expect("records");
        assert_eq!(found.common(), Ticks(1000));
        assert_eq!(found.note(&Clock::default()), None);
        assert_eq!(found.common_in_words(&Clock::default()), "all of 8.100 µs");
        assert_eq!(windows(&[(thread(3, 5), None, 0)]), None);
    }

    #[test]
    fn the_latest_beginning_is_what_all_have() {
        let found = windows(&[
            (thread(1, 7), Some(1000), 1500),
            (thread(2, 7), Some(9000), 10_000),
            (thread(3, 7), Some(8000), 9900),
        ]);
        let found = found.expect("records");
        assert_eq!(found.common(), Ticks(9000));
        let note = found.note(&Clock::default()).expect("they differ");
        assert!(
            note.contains("t2 (thread 2) and 1 more thread are overwritten")
                && note.contains("the last 1.000 µs of 9.000 µs;"),
            "{note}"
        );
    }

    #[test]
    fn a_little_later_is_not_reported() {
        let found = windows(&[(thread(1, 7), Some(0), 990), (thread(2, 7), Some(99), 1000)]);
        let found = found.expect("records");
        assert_eq!((found.common(), found.late), (Ticks(99), 0));
    }
}
