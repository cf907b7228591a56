//! Classes of lengths of calls, in ticks: eight for each power of two, and the quantiles of calls that were counted by
//! class. Pure.
//!
//! A class is at most an eighth of its lower edge wide, from 128 ticks on. Below, it is 16 ticks wide.

/// How many classes there are. The last one has all longer calls too.
pub const CLASSES: usize = 248;
/// The shortest length of the class behind the last one, in ticks: about 90 s of a counter of 3 GHz.
pub const MAX_LENGTH: u64 = (16 << 34) - (8 << 4);

/// The class of a call of that many ticks. Async-signal-safe.
#[inline]
#[must_use]
pub const fn class(ticks: u64) -> usize {
    let ticks = if ticks < MAX_LENGTH {
        ticks
    } else {
        MAX_LENGTH - 1
    };
    let steps = (ticks >> 4) + 8;
    let octave = steps.ilog2() - 3;
    octave as usize * 8 + (steps >> octave) as usize - 8
}

/// The shortest length of a class, in ticks.
#[must_use]
pub const fn shortest(class: usize) -> u64 {
    let (octave, step) = (class / 8, class % 8);
    (((step as u64 + 8) << octave) - 8) << 4
}

/// The length in ticks that `percent` percent of the calls do not exceed: the middle of its class. `longest` is the
/// longest call. `None`: there are no calls.
#[must_use]
pub fn quantile(
    counts: impl IntoIterator<Item = (u8, u64)> + Clone,
    longest: u64,
    percent: u64,
) -> Option<u64> {
    let all = counts.clone().into_iter();
    let all = all.fold(0_u64, |sum, (_, count)| sum.saturating_add(count));
    // Nearest rank: the smallest value with at least that many calls at or below it.
    let rank = (u128::from(all) * u128::from(percent)).div_ceil(100).max(1);
    let mut sum = 0_u128;
    let found = counts.into_iter().find(|(_, count)| {
        sum += u128::from(*count);
        sum >= rank
    });
    let class = usize::from(found?.0);
    let middle = shortest(class) + (shortest(class + 1) - shortest(class)) / 2;
    Some(middle.min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_begins_where_the_one_before_ends() {
        assert_eq!(shortest(0), 0);
        for at in 0..CLASSES {
            assert_eq!(class(shortest(at)), at);
            assert_eq!(class(shortest(at + 1) - 1), at);
            let width = shortest(at + 1) - shortest(at);
            assert!(width <= (shortest(at) / 8 + 16), "{at}: {width}");
        }
        assert_eq!(shortest(CLASSES), MAX_LENGTH);
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn edges_as_typed_by_hand() {
        assert_eq!([0, 15, 16, 127].map(class), [0, 0, 1, 7]);
        assert_eq!([128, 159, 160, 383, 384].map(class), [8, 8, 9, 15, 16]);
    }

    #[test]
    fn quantiles() {
        let counts = [(0, 50), (8, 49), (16, 1)];
        let at = |percent| quantile(counts, 390, percent);
        assert_eq!(at(50), Some(8));
        assert_eq!(at(51), Some(144));
        assert_eq!(at(99), Some(144));
        assert_eq!(at(100), Some(390), "no longer than the longest");
        assert_eq!(quantile([], 0, 50), None);
    }
}
