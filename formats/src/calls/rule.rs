//! Decides which open call an exit ends: the one rule for everything that follows calls. It only decides; the owner of
//! the open calls acts.
//!
//! `longjmp` in a loop may leave any number of calls open, and the exit of the function around it must find
//! its call. A hostile file must not make the rule search a deep stack in vain again and again. So a failed
//! search costs its length, and each entry adds credit.

/// The number of calls that are always searched.
const NEAR: usize = 4096;

/// The meaning of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It ends the innermost open call.
    Innermost,
    /// It ends a call with this many open calls inside. Their exits are missing.
    Outer(usize),
    /// Nothing is open, and no record was missing so far. The call was entered before the first record.
    Before,
    /// Its entry is missing: other calls are open, or records were missing before.
    Lone,
}

/// The state of the rule for one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Credit: how many calls beyond [`NEAR`] may be searched.
    credit: usize,
    /// Records are missing in the middle.
    gap: bool,
}

impl Rule {
    /// A number of calls were entered. Async-signal-safe.
    #[inline]
    pub fn entered(&mut self, calls: usize) {
        self.credit = self.credit.wrapping_add(calls);
    }

    /// Records are missing here. A call that was entered among them did not begin before the first
    /// record. Async-signal-safe.
    pub fn lost(&mut self) {
        self.gap = true;
    }

    /// Whether records are missing in the middle.
    pub(crate) fn has_gap(&self) -> bool {
        self.gap
    }

    /// For a second pass over the same records: the credit is reset, the gaps stay.
    pub(crate) fn restarted(self) -> Rule {
        Rule { credit: 0, ..self }
    }

    /// The effect of an exit on the `open` calls, outermost first. `is` returns whether a call is of the exit's
    /// function.
    /// Async-signal-safe.
    #[inline]
    pub fn exit<T>(&mut self, open: &[T], is: impl Fn(&T) -> bool) -> Exit {
        match open.last() {
            Some(innermost) if is(innermost) => Exit::Innermost,
            _ => self.outer_exit(open, is),
        }
    }

    /// As [`Rule::exit`], for an exit that does not end the innermost open call.
    #[cold]
    pub fn outer_exit<T>(&mut self, open: &[T], is: impl Fn(&T) -> bool) -> Exit {
        if open.is_empty() && !self.gap {
            return Exit::Before;
        }
        let most = NEAR.saturating_add(self.credit).min(open.len());
        match open.iter().rev().take(most).position(is) {
            Some(0) => Exit::Innermost,
            Some(inside) => Exit::Outer(inside),
            None => {
                self.credit = self.credit.saturating_sub(most.saturating_sub(NEAR));
                Exit::Lone
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn exits_match_inner_outer_or_no_calls() {
        let exit = |rule: &mut Rule, open: &[u32], id| rule.exit(open, |&open| open == id);
        let mut rule = Rule::default();
        assert_eq!(exit(&mut rule, &[1, 2, 2, 3], 3), Exit::Innermost);
        assert_eq!(exit(&mut rule, &[1, 2, 2, 3], 2), Exit::Outer(1));
        assert_eq!(exit(&mut rule, &[1, 2, 2, 3], 1), Exit::Outer(3));
        assert_eq!(exit(&mut rule, &[1, 2, 2, 3], 4), Exit::Lone);
        assert_eq!(exit(&mut rule, &[], 4), Exit::Before);
        rule.lost();
        assert_eq!(exit(&mut rule, &[], 4), Exit::Lone);
        assert_eq!(exit(&mut rule, &[1, 2], 1), Exit::Outer(1));
    }

    #[test]
    fn failed_searches_are_bounded_at_any_depth() {
        let mut rule = Rule::default();
        // Miri takes minutes for more.
        let count = if cfg!(miri) { 10_000 } else { 1_000_000 };
        let open: Vec<usize> = (0..count).collect();
        rule.entered(open.len());
        assert_eq!(rule.exit(&open, |&id| id == 0), Exit::Outer(count - 1));
        // The search succeeded. The searched calls are left, so they cost no credit.
        assert_eq!(rule.exit(&open, |&id| id == 7), Exit::Outer(count - 8));
        let looked = Cell::new(0);
        for _ in 0..1000 {
            let none = rule.exit(&open, |_| {
                looked.set(looked.get() + 1);
                false
            });
            assert_eq!(none, Exit::Lone);
        }
        assert!(looked.get() < count + 1001 * (NEAR + 1), "{looked:?}");
        assert_eq!(rule.exit(&open, |&id| id == count - 1000), Exit::Outer(999));
    }
}
