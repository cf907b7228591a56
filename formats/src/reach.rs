//! How far down a stack of open calls the entry of an exit is looked for. All that make calls nest
//! share it, so that they agree. `longjmp` in a loop may leave any number of calls open, which the exit
//! of the function around it must find; a hostile file must not have a deep stack searched in vain
//! again and again. So searches that find nothing are paid for by entries. Must never allocate.

/// Calls that are always looked at.
const NEAR: usize = 4096;

/// What searches may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Calls beyond [`NEAR`] that may be looked at.
    credit: usize,
}

impl Reach {
    /// A call was entered.
    #[inline]
    pub(crate) fn enter(&mut self) {
        self.enter_all(1);
    }

    /// So many calls were entered.
    #[inline]
    pub(crate) fn enter_all(&mut self, calls: usize) {
        self.credit = self.credit.wrapping_add(calls);
    }

    /// How many calls were entered after the innermost one that `is` it. `None`: none of those that may
    /// be looked at is.
    pub(crate) fn find<T>(&mut self, open: &[T], is: impl Fn(&T) -> bool) -> Option<usize> {
        let most = NEAR.saturating_add(self.credit).min(open.len());
        let found = open.iter().rev().take(most).position(is);
        if found.is_none() {
            self.credit = self.credit.saturating_sub(most.saturating_sub(NEAR));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_call_is_found_under_any_number_of_others_and_searching_in_vain_is_bounded() {
        let mut reach = Reach::default();
        let open: Vec<usize> = (0..1_000_000).collect();
        open.iter().for_each(|_| reach.enter());
        assert_eq!(reach.find(&open, |&id| id == 0), Some(999_999));
        // It was found: what was looked at is left, and nothing is owed.
        assert_eq!(reach.find(&open, |&id| id == 7), Some(999_992));
        let looked = Cell::new(0);
        for _ in 0..1000 {
            let none = reach.find(&open, |_| {
                looked.set(looked.get() + 1);
                false
            });
            assert_eq!(none, None);
        }
        assert!(looked.get() < 1_000_000 + 1001 * NEAR, "{looked:?}");
        assert_eq!(reach.find(&open, |&id| id == 999_000), Some(999));
    }
}
