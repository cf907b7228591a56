//! The paths of calls as the page draws them. Paths that are too small to see are left out, and counted.

use serde::Serialize;

use crate::tree::paths::Paths;

/// Paths of less than this part of all are left out.
const MIN: u64 = 2000;
/// The most paths.
const MAX_PATHS: usize = 20_000;

#[derive(Serialize)]
pub(super) struct Flame<'a> {
    paths: Vec<PathOf<'a>>,
    /// Ns of the paths that are left out.
    left_out: u64,
}

#[derive(Serialize)]
struct PathOf<'a> {
    name: &'a str,
    caller: usize,
    own: u64,
    total: u64,
}

impl<'a> Flame<'a> {
    pub(super) fn new(paths: &'a Paths) -> Flame<'a> {
        let least = paths.all()[1] / MIN;
        let mut kept: Vec<PathOf<'_>> = Vec::new();
        let mut places: Vec<Option<usize>> = Vec::with_capacity(paths.nodes.len());
        let mut left_out = 0;
        for (nth, node) in paths.nodes.iter().enumerate() {
            let caller = places.get(node.caller).copied().flatten();
            let is_kept =
                nth == 0 || caller.is_some() && node.total[1] > least && kept.len() < MAX_PATHS;
            if !is_kept {
                left_out += node.own[1];
                places.push(None);
                continue;
            }
            places.push(Some(kept.len()));
            kept.push(PathOf {
                name: &node.name,
                caller: caller.unwrap_or(0),
                own: node.own[1],
                total: node.total[1],
            });
        }
        Flame {
            paths: kept,
            left_out,
        }
    }
}
