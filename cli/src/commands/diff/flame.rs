//! The flame graph of a comparison: as wide as the time after, in the colours of what changed. Figures are means over the
//! runs of a side. What may be chance has no colour: the rule is that of the table.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Options;
use super::compare::MIN_SHARE;
use super::moderated::{self, LEVEL, Pair};
use crate::selection::Filtering;
use crate::tree::folding::{Folding, FoldingOptions};
use crate::tree::paths::Paths;
use crate::tree::picture::{self, Words};
use crate::{input, output_file, ui};

/// Marks the paths of which it is shown that their times differ. `runs`: the own times of all paths in each run of a
/// side.
fn test(paths: &mut Paths, runs: &[Vec<Vec<u64>>; 2]) {
    if runs.iter().any(|side| side.len() < 2) {
        return;
    }
    let totals = runs.each_ref().map(|side| {
        let totals = side.iter().map(|own| paths.totals(own));
        totals.collect::<Vec<_>>()
    });
    // The time of a path is in that of its callers, too. So the common spread is that of the own times.
    let (_, own) = pairs(runs, &totals);
    let (places, pairs) = pairs(&totals, &totals);
    for (place, chance) in places.into_iter().zip(moderated::adjusted(&pairs, &own)) {
        paths.nodes[place].differs = chance <= LEVEL;
    }
}

/// The paths that have a part of all time that matters, in some run, and the logarithms of their times in each run.
fn pairs(runs: &[Vec<Vec<u64>>; 2], totals: &[Vec<Vec<u64>>; 2]) -> (Vec<usize>, Vec<Pair>) {
    // A path that a run lacks has no logarithm. It counts as if it had as little time as what does not matter.
    let logs = |place: usize| {
        [0, 1].map(|side| {
            let shares = runs[side].iter().zip(&totals[side]).map(|(run, totals)| {
                let all = totals.first().copied().unwrap_or(0).max(1) as f64;
                let time = run.get(place).copied().unwrap_or(0) as f64;
                (time.max(MIN_SHARE * all).ln(), time > MIN_SHARE * all)
            });
            shares.unzip::<f64, bool, Vec<f64>, Vec<bool>>()
        })
    };
    let paths = totals.iter().flatten().map(Vec::len).max().unwrap_or(0);
    let matching = (0..paths).filter_map(|place| {
        let [(before, some_before), (after, some_after)] = logs(place);
        let matters = some_before
            .iter()
            .chain(&some_after)
            .any(|matters| *matters);
        matters.then_some((place, Pair { before, after }))
    });
    matching.unzip()
}

/// Reads both sides, and draws the picture.
///
/// # Errors
/// Where a trace can't be read, or the picture not be written.
pub(super) fn write(options: &Options, output: &Path) -> anyhow::Result<()> {
    let folding_options = FoldingOptions {
        selection: &options.selection,
        filtering: Filtering::Shown,
        per_thread: false,
        calls: false,
        by: None,
        common: false,
    };
    let mut paths = Paths::default();
    let mut runs: [Vec<Vec<u64>>; 2] = [Vec::new(), Vec::new()];
    for (side, path) in [&options.before, &options.after].into_iter().enumerate() {
        let traces: Vec<PathBuf> = input::traces(path)?;
        for trace in &traces {
            output_file::check_is_not(output, trace)?;
            let folding = Folding::read(&folding_options, trace)?;
            let earlier = paths.own_times(side);
            let added = folding.add_to(&mut paths, side);
            added.with_context(|| ui::path(trace))?;
            let mut own = paths.own_times(side);
            for (own, earlier) in own.iter_mut().zip(earlier) {
                *own -= earlier;
            }
            runs[side].push(own);
        }
    }
    paths.settle([0, 1].map(|side| runs[side].len() as u64));
    test(&mut paths, &runs);
    let [before, after] = paths.all();
    if after == 0 {
        anyhow::bail!("--flame: nothing to draw: no path has a time after");
    }
    let mut subtitle = format!(
        "width: the time after, {} (before: {}) · {}",
        ui::duration(after),
        ui::duration(before),
        match runs.iter().all(|side| side.len() > 1) {
            true => "red: more than before, blue: less, grey: it may be chance",
            false => "no colours: with one run on a side, any change may be chance",
        }
    );
    let gone = paths.gone_total();
    if gone > 0 {
        let gone = ui::duration(gone);
        subtitle.push_str(&format!(" · {gone} before in paths that are gone"));
    }
    let words = Words {
        title: &format!(
            "{} → {}",
            ui::path(&options.before),
            ui::path(&options.after)
        ),
        subtitle: &subtitle,
        value: ui::duration,
        is_change: true,
    };
    output_file::write(output, options.force, |out| {
        picture::draw(out, &paths, &words)
    })
}
