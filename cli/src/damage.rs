//! The problems of a trace that are shown: the first ones in the order of the file, whichever thread met them. The
//! others are counted.

use std::collections::BinaryHeap;

use fdr_formats::Diagnostic;

/// Problems that are kept to be shown; the rest is only counted.
pub(crate) const MAX_DIAGNOSTICS: usize = 100;

/// Problems of a trace, or of a worker's share of it.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    /// The offset of each problem, and its description. The problem with the largest offset is on top, because a
    /// problem with a smaller offset replaces it.
    first: BinaryHeap<(u64, String)>,
    more: u64,
}

impl Damage {
    /// One more.
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        let Diagnostic { offset, what } = diagnostic;
        self.keep((offset, what));
    }

    /// Those of another worker.
    pub(crate) fn join(&mut self, more: Damage) {
        self.more += more.more;
        more.first.into_iter().for_each(|one| self.keep(one));
    }

    fn keep(&mut self, one: (u64, String)) {
        if self.first.len() < MAX_DIAGNOSTICS {
            self.first.push(one);
            return;
        }
        self.more += 1;
        if let Some(mut last) = self.first.peek_mut()
            && one < *last
        {
            *last = one;
        }
    }

    /// The first ones in order, and how many more there are.
    pub(crate) fn into_parts(self) -> (Vec<Diagnostic>, u64) {
        let first = self.first.into_sorted_vec().into_iter();
        let first = first.map(|(offset, what)| Diagnostic { offset, what });
        (first.collect(), self.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_first_damages_are_kept() {
        let of = |offsets: &mut dyn Iterator<Item = u64>| {
            let mut damage = Damage::default();
            for offset in offsets {
                let what = String::new();
                damage.add(Diagnostic { offset, what });
            }
            damage
        };
        let mut damage = of(&mut (0..300).rev().step_by(2));
        damage.join(of(&mut (0..300).step_by(2)));
        let (first, more) = damage.into_parts();
        let offsets: Vec<u64> = first.iter().map(|diagnostic| diagnostic.offset).collect();
        assert_eq!((offsets, more), ((0..100).collect(), 200));
    }
}
