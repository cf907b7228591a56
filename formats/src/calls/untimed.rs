//! The functions without times of their own, as a table by id.

use std::sync::Arc;

use crate::model::FunctionId;
use crate::model::TraceInfo;

/// Ids below this index a table (1 MiB at most). Recorders count their functions from 1.
const NEAR: u32 = 1 << 20;

/// The functions of a trace that have no times of their own.
#[derive(Clone, Debug, Default)]
pub struct Untimed(Arc<Ids>);

#[derive(Debug, Default)]
struct Ids {
    /// By id: all ones for functions without times. The table ends with the last of them.
    near: Vec<i8>,
    /// Larger ids, sorted.
    far: Vec<FunctionId>,
}

/// The functions of a trace that have no times of their own.
#[must_use]
pub fn untimed(info: &TraceInfo) -> Untimed {
    let untimed = info.functions.iter().filter(|function| function.untimed);
    untimed.map(|function| function.id).collect()
}

impl FromIterator<FunctionId> for Untimed {
    fn from_iter<I: IntoIterator<Item = FunctionId>>(ids: I) -> Untimed {
        let mut known = Ids::default();
        for id in ids {
            if id.0 >= NEAR {
                known.far.push(id);
                continue;
            }
            let at = id.0 as usize;
            if known.near.len() <= at {
                known.near.resize(at + 1, 0);
            }
            known.near[at] = -1;
        }
        known.far.sort_unstable();
        Untimed(Arc::new(known))
    }
}

impl Untimed {
    /// Whether all functions have times.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.near.is_empty() && self.0.far.is_empty()
    }

    /// Whether a function has no times.
    #[inline]
    #[must_use]
    pub fn contains(&self, function: FunctionId) -> bool {
        let near = self.0.near.get(function.0 as usize);
        near.is_some_and(|&mask| mask != 0) || self.is_far(function)
    }

    #[inline]
    fn is_far(&self, function: FunctionId) -> bool {
        !self.0.far.is_empty() && self.0.far.binary_search(&function).is_ok()
    }

    /// A table by id: all ones for functions without times, zeros or no element for others. `None`: some
    /// ids are large.
    pub(super) fn near(&self) -> Option<&[i8]> {
        self.0.far.is_empty().then_some(&self.0.near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ids_and_others_are_found() {
        let ids = [3, 7, NEAR - 1, NEAR, u32::MAX].map(FunctionId);
        let untimed: Untimed = ids.into_iter().collect();
        assert!(ids.iter().all(|&id| untimed.contains(id)) && !untimed.is_empty());
        let others = [0, 4, 8, NEAR - 2, NEAR + 1, u32::MAX - 1].map(FunctionId);
        assert!(!others.iter().any(|&id| untimed.contains(id)));
        assert!(untimed.near().is_none());
        assert!(Untimed::default().is_empty());
        let hostile: Untimed = [FunctionId(u32::MAX)].into_iter().collect();
        assert!(hostile.0.near.is_empty());
    }
}
