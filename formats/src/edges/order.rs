//! The order of the items of a run: by time, and, if several begin together, by what they are and where they are in the
//! file.

use std::cmp::Reverse;

use super::{ItemContent, Numbered};
use crate::spans::flags;

impl Numbered {
    /// Its place in the file. A writer that finds an exit without an entry puts the entry in front of all
    /// others.
    fn place(&self) -> u64 {
        match self.item.what {
            ItemContent::Span { flags, .. } if flags & flags::ENTRY_SYNTHETIC != 0 => 0,
            _ => self.number,
        }
    }
}

/// Puts the items of a run in order of time.
pub(super) fn sort(items: &mut [Numbered]) {
    items.sort_unstable_by_key(|&Numbered { item, number }| {
        let end = Reverse(item.end.max(item.start));
        (item.start, item.what.rank(), end, number)
    });
    let together = |a: &Numbered, b: &Numbered| {
        (a.item.start, a.item.what.rank()) == (b.item.start, b.item.what.rank())
    };
    for group in items.chunk_by_mut(together) {
        let lengthless = group.partition_point(|Numbered { item, .. }| item.end > item.start);
        let (longer, rest) = group.split_at(lengthless);
        let is_call = |numbered: &Numbered| matches!(numbered.item.what, ItemContent::Span { .. });
        let Some(last) = longer.last() else { continue };
        if rest
            .iter()
            .any(|call| is_call(call) && call.number < last.place())
        {
            // For each longer call, the earliest place in the file of this call and the longer calls after it. A call
            // without length ends before these calls begin if all of their places are behind its place.
            let mut first: Vec<u64> = longer.iter().map(Numbered::place).collect();
            for at in (1..first.len()).rev() {
                first[at - 1] = first[at - 1].min(first[at]);
            }
            let turn = |(at, numbered): (usize, &Numbered)| match at < lengthless {
                true => 2 * at + 1,
                false if is_call(numbered) => 2 * first.partition_point(|&is| is < numbered.number),
                false => 2 * lengthless,
            };
            let turns = group
                .iter()
                .enumerate()
                .map(|numbered| (turn(numbered), *numbered.1));
            let mut turns: Vec<(usize, Numbered)> = turns.collect();
            turns.sort_by_key(|&(turn, _)| turn);
            for (item, (_, numbered)) in group.iter_mut().zip(turns) {
                *item = numbered;
            }
        }
    }
}
