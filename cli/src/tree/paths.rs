//! Paths of calls by name, with a value of each of two sides, in which several traces may be put together.

use std::collections::HashMap;
use std::io;

use crate::memory;

/// The path of everything.
pub(super) const ROOT: usize = 0;

/// A path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Path {
    pub(crate) caller: usize,
    pub(crate) name: String,
    /// The self time of the last function, before and after. A single trace has only `after`.
    pub(crate) own: [u64; 2],
    /// The same times, with those of all paths below it.
    pub(crate) total: [u64; 2],
    /// It is shown that the time of both sides differs, and not by chance.
    pub(crate) differs: bool,
}

/// All paths, callers before those that they call.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) nodes: Vec<Path>,
    by_name: HashMap<(usize, String), usize>,
}

impl Default for Paths {
    fn default() -> Self {
        Paths {
            nodes: vec![Path::default()],
            by_name: HashMap::new(),
        }
    }
}

impl Paths {
    /// The path of a name below another one.
    ///
    /// # Errors
    /// Where the names take too much memory.
    pub(super) fn below(&mut self, caller: usize, name: &str) -> io::Result<usize> {
        let key = (caller, name.to_owned());
        if let Some(&known) = self.by_name.get(&key) {
            return Ok(known);
        }
        memory::check()?;
        let place = self.nodes.len();
        self.nodes.push(Path {
            caller,
            name: name.to_owned(),
            ..Path::default()
        });
        self.by_name.insert(key, place);
        Ok(place)
    }

    /// Adds to what a path took by itself. `side`: 0 before, 1 after.
    pub(super) fn add(&mut self, path: usize, side: usize, own: u64) {
        if let Some(sum) = self
            .nodes
            .get_mut(path)
            .and_then(|path| path.own.get_mut(side))
        {
            *sum = sum.saturating_add(own);
        }
    }

    /// What each path took by itself on a side, in all runs so far.
    pub(crate) fn own_times(&self, side: usize) -> Vec<u64> {
        self.nodes.iter().map(|path| path.own[side]).collect()
    }

    /// These own times, with those of all paths below each.
    pub(crate) fn totals(&self, own: &[u64]) -> Vec<u64> {
        let mut totals = own.to_owned();
        for place in (1..totals.len()).rev() {
            let caller = self.nodes[place].caller;
            totals[caller] = totals[caller].saturating_add(totals[place]);
        }
        totals
    }

    /// Divides the sums of each side by its number of runs. Then adds to each path the sums of all paths below it.
    pub(crate) fn settle(&mut self, runs: [u64; 2]) {
        for node in &mut self.nodes {
            for (own, runs) in node.own.iter_mut().zip(runs) {
                *own = own.checked_div(runs).unwrap_or(0);
            }
            node.total = node.own;
        }
        for place in (1..self.nodes.len()).rev() {
            let (caller, total) = (self.nodes[place].caller, self.nodes[place].total);
            let sums = self.nodes[caller].total.iter_mut().zip(total);
            sums.for_each(|(sum, more)| *sum = sum.saturating_add(more));
        }
    }

    /// What all paths have, before and after.
    pub(crate) fn all(&self) -> [u64; 2] {
        self.nodes.first().map_or([0, 0], |root| root.total)
    }

    /// What paths had before that have nothing after.
    pub(crate) fn gone_total(&self) -> u64 {
        let gone = self.nodes.iter().filter(|path| path.total[1] == 0);
        gone.fold(0, |sum, path| sum.saturating_add(path.own[0]))
    }

    /// The paths below each path, in the order of names.
    pub(super) fn called(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (1..self.nodes.len()).collect();
        order.sort_by(|&left, &right| {
            let (left, right) = (&self.nodes[left], &self.nodes[right]);
            (left.caller, &left.name).cmp(&(right.caller, &right.name))
        });
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_put_together_by_name() {
        let mut paths = Paths::default();
        for (side, own) in [(0, 10), (1, 30), (1, 50)] {
            let outer = paths.below(ROOT, "a").expect("room");
            let inner = paths.below(outer, "b").expect("room");
            paths.add(inner, side, own);
            paths.add(outer, side, 2);
        }
        let other = paths.below(ROOT, "0").expect("room");
        paths.add(other, 0, 7);
        paths.settle([1, 2]);
        let totals: Vec<[u64; 2]> = paths.nodes.iter().map(|path| path.total).collect();
        assert_eq!(totals, [[19, 42], [12, 42], [10, 40], [7, 0]]);
        assert_eq!(paths.called(), [3, 1, 2]);
    }
}
