//! The named moments of a ring (`fdr_formats::ring::moments`): how one is added, and how the process reads
//! them. Reading is async-signal-safe. This file must never be used by a thread that records.

use fdr_formats::moments::{MAX_BYTES, MAX_MOMENTS};
use fdr_formats::ring::moments::place;

use super::layout::{Moment, Moments};
use super::store;
use crate::primitive::{Ordering, fence};

/// A moment as it was read.
#[derive(Clone, Copy)]
pub(crate) struct Copy {
    pub(crate) number: u64,
    pub(crate) ticks: u64,
    /// Padded with NULs.
    bytes: [u8; MAX_BYTES],
}

impl Copy {
    pub(crate) fn name(&self) -> &str {
        let name = fdr_formats::ring::moments::name(&self.bytes);
        core::str::from_utf8(name).unwrap_or_default()
    }
}

/// Adds a moment, and returns its number. The oldest one gives way if there is no place. No other call may run meanwhile.
pub(crate) fn add(moments: &Moments, ticks: u64, name: &str) -> u64 {
    let number = newest(moments).saturating_add(1);
    let Some(to) = moments.get(place(number)) else {
        return 0;
    };
    to.number.store(0, Ordering::Relaxed);
    // Release: pairs with the Acquire fence in `read`. A reader that sees a new word also sees that the number has
    // changed.
    fence(Ordering::Release);
    to.ticks.store(ticks, Ordering::Relaxed);
    store(&to.name, name.as_bytes());
    // Release: pairs with the Acquire load in `read`. A reader that sees the number also sees the tick and the name
    // of that moment.
    to.number.store(number, Ordering::Release);
    number
}

/// The number of the newest moment. 0: there is none.
#[inline(never)]
fn newest(moments: &Moments) -> u64 {
    let numbers = moments.iter().map(|of| of.number.load(Ordering::Relaxed));
    numbers.max().unwrap_or(0)
}

/// The moments, the oldest first. Async-signal-safe.
pub(crate) fn all(moments: &Moments) -> impl Iterator<Item = Copy> + '_ {
    let newest = newest(moments);
    let oldest = newest.saturating_sub(MAX_MOMENTS as u64) + 1;
    let numbered = move |number| moments.get(place(number)).and_then(|of| read(of, number));
    (oldest..=newest).filter_map(numbered)
}

/// `None`: the place has another moment, or is being written.
#[inline(never)]
fn read(moment: &Moment, number: u64) -> Option<Copy> {
    if moment.number.load(Ordering::Acquire) != number {
        return None;
    }
    let ticks = moment.ticks.load(Ordering::Relaxed);
    let mut bytes = [0; MAX_BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(&moment.name) {
        to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    fence(Ordering::Acquire);
    let is_same = moment.number.load(Ordering::Relaxed) == number;
    is_same.then_some(Copy {
        number,
        ticks,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use super::*;

    fn empty() -> Moments {
        // SAFETY: the moments are atomics, and zeros are valid.
        unsafe { core::mem::zeroed() }
    }

    fn listed(moments: &Moments) -> Vec<(u64, u64, String)> {
        let all = all(moments).map(|of| (of.number, of.ticks, of.name().to_owned()));
        all.collect()
    }

    #[test]
    fn the_newest_moments_are_kept() {
        let moments = empty();
        assert_eq!(listed(&moments), []);
        let longest = "ü".repeat(MAX_BYTES / 2);
        for number in 1..=100 {
            assert_eq!(add(&moments, 10 * number, &longest), number);
            let oldest = number.saturating_sub(MAX_MOMENTS as u64 - 1).max(1);
            let wanted = (oldest..=number).map(|other| (other, 10 * other, longest.clone()));
            assert_eq!(listed(&moments), wanted.collect::<Vec<_>>());
        }
        // No byte of a longer name stays.
        assert_eq!(add(&moments, 1, "short"), 101);
        assert_eq!(listed(&moments).pop(), Some((101, 1, "short".to_owned())));
    }

    #[test]
    fn moments_being_written_are_left_out() {
        let moments = empty();
        for name in ["one", "two", "three"] {
            add(&moments, 1, name);
        }
        moments[1].number.store(0, Ordering::Relaxed);
        let names = listed(&moments).into_iter().map(|of| of.2);
        assert_eq!(names.collect::<Vec<_>>(), ["one", "three"]);
        // Numbers that the file can't have.
        moments[1].number.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(listed(&moments), []);
        assert_eq!(add(&moments, 1, "four"), u64::MAX);
    }
}
