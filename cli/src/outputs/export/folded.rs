//! Folded lines: a path of calls and the ns that its last function spent by itself, as `fdr flame` prints them.

use super::facts::Facts;
use super::paths::Folded;
use super::{Export, Make, Out, target};
use crate::tree::folded_lines;

/// The format.
pub(super) const EXPORT: Export = Export {
    target: target("folded", "folded lines", "folded"),
    holds: super::paths::HOLDS,
    make: Make::Paths(write),
};

fn write(out: &mut Out, facts: &Facts, folded: &Folded) -> anyhow::Result<()> {
    folded_lines::write(out, &facts.info, &folded.tree, &|node| {
        facts.length(node.own)
    })
}
