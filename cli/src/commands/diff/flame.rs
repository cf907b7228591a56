//! The flame graph of a comparison: as wide as the time after, in the colours of what changed. Figures are means over the
//! runs of a side.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Options;
use crate::selection::Filtering;
use crate::tree::folding::{Folding, FoldingOptions};
use crate::tree::paths::Paths;
use crate::tree::picture::{self, Words};
use crate::{input, output_file, ui};

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
    let mut runs = [0, 0];
    for (side, path) in [&options.before, &options.after].into_iter().enumerate() {
        let traces: Vec<PathBuf> = input::traces(path)?;
        for trace in &traces {
            output_file::check_is_not(output, trace)?;
            let folding = Folding::read(&folding_options, trace)?;
            let added = folding.add_to(&mut paths, side);
            added.with_context(|| ui::path(trace))?;
        }
        runs[side] = traces.len() as u64;
    }
    paths.settle(runs);
    let [before, after] = paths.all();
    if after == 0 {
        anyhow::bail!("--flame: nothing to draw: no path has a time after");
    }
    let mut subtitle = format!(
        "width: the time after, {} (before: {}) · red: more than before, blue: less, grey: about the same",
        ui::duration(after),
        ui::duration(before)
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
