//! Numbers of threads for formats that have 32 bits for them. The neutral model has 64 bits, because a thread may stand
//! for a pair of numbers, or come from another system.

use crate::model::ThreadId;
use crate::number_map::NumberMap;

/// The loss of threads with another number, in formats that also hold the whole number.
pub(crate) const RENUMBERED: &str =
    "thread ids over 32 bits, or taken: other readers see another number";

/// The numbers that were given.
#[derive(Debug)]
pub(crate) struct ThreadNumbers {
    numbers: NumberMap,
    /// Threads whose own number does not fit get numbers from here down. Formats with signed numbers have no more bits,
    /// and no kernel uses numbers that high.
    spare: u32,
    /// Threads that have another number than their own.
    pub(crate) renumbered: u64,
}

impl Default for ThreadNumbers {
    fn default() -> ThreadNumbers {
        ThreadNumbers {
            numbers: NumberMap::default(),
            spare: i32::MAX as u32,
            renumbered: 0,
        }
    }
}

impl ThreadNumbers {
    /// The number of a thread that comes for the first time: its own, if it has 32 bits and is free.
    pub(crate) fn begin(&mut self, thread: ThreadId) -> u32 {
        let own = u32::try_from(thread.0).ok();
        if let Some(own) = own.filter(|&own| self.numbers.insert(own.into(), 0)) {
            return own;
        }
        self.renumbered += 1;
        loop {
            let number = self.spare;
            self.spare = number.wrapping_sub(1);
            if self.numbers.insert(number.into(), 0) {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_threads_have_one_number() {
        let ids = [
            7,
            1 << 63 | 1 << 32 | 7,
            1 << 63 | 2 << 32 | 7,
            i32::MAX as u64,
            u64::from(u32::MAX),
            0,
        ];
        let mut numbers = ThreadNumbers::default();
        let given = ids.map(|id| numbers.begin(ThreadId(id)));
        let spare = i32::MAX as u32;
        // The fourth thread's own number is taken already.
        assert_eq!(given, [7, spare, spare - 1, spare - 2, u32::MAX, 0]);
        assert_eq!(numbers.renumbered, 3);
    }
}
