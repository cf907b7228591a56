//! Sorts items that stand near their place in time, in two passes, a run at a time. The first pass cuts the items into
//! runs. It notes each item that was open between two runs: such an item stands in a later run than the one in which it
//! begins. The second pass adds the noted items to the run of their beginning.

/// The runs, and the items that are early.
#[derive(Clone, Debug)]
pub(crate) struct Runs<T, I> {
    /// The end of each run. An item that begins there or later belongs neither to that run nor to an
    /// earlier one.
    pub(crate) ends: Vec<T>,
    /// Items that begin in an earlier run than the one in which they stand. Each has the number of that earlier
    /// run, by which the list is sorted.
    pub(crate) early: Vec<(u32, I)>,
}

impl<T, I> Default for Runs<T, I> {
    fn default() -> Runs<T, I> {
        Runs {
            ends: Vec::new(),
            early: Vec::new(),
        }
    }
}

impl<T: Copy + Ord, I: Copy> Runs<T, I> {
    /// The first pass: an item of the current run.
    pub(crate) fn note(&mut self, start: T, item: I) {
        if self.is_early(start, self.ends.len()) {
            let run = self.ends.partition_point(|&end| end <= start);
            let run = u32::try_from(run).unwrap_or(u32::MAX);
            self.early.push((run, item));
        }
    }

    /// The first pass is over.
    pub(crate) fn finish(&mut self) {
        self.early.sort_by_key(|&(run, _)| run);
        self.early.shrink_to_fit();
    }

    /// Whether an item begins before the run in which it stands.
    #[inline]
    pub(crate) fn is_early(&self, start: T, run: usize) -> bool {
        // Most items begin in the current run.
        let ends = self.ends.get(..run).unwrap_or(&self.ends);
        ends.last().is_some_and(|&end| end > start)
    }

    /// The second pass: the early items up to that run. `taken` of them were taken already.
    pub(crate) fn take(&self, taken: &mut usize, run: usize) -> impl Iterator<Item = I> {
        let early = self.early.get(*taken..).unwrap_or(&[]);
        let count = early.partition_point(|&(of, _)| of as usize <= run);
        *taken += count;
        early[..count].iter().map(|&(_, item)| item)
    }
}
