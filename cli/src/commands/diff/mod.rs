//! `fdr diff`: what changed between two sides of one run or several, function by function.

mod compare;
mod flame;
mod json;
mod moderated;
mod runs;
mod show;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::bail;

use self::compare::{Comparison, Verdict, compare};
use super::Status;
use crate::output_file::{self, Shape};
use crate::selection::Selection;
use crate::ui;

const HELP: &str = "\
BEFORE and AFTER are a trace each, or a folder with the traces of several runs.
The figures are means over the runs of a side. They are of the whole runs if
each trace has these figures, and else of the records.

Columns:
  calls    in a run
  self     time of a call, less the time in traced functions that it called
  change   of self; p50 and p99 are percentiles of the whole call
  →        the same after
  verdict  slower, faster: the difference is shown. -: it may be chance. new,
           gone: the function has calls on one side only. Nothing: not tested

A function is tested if each side has two runs or more, and it has a thousandth
of the self time. The test is a moderated t-test of the logarithms of the self
times of a call, of which each run has one. It is corrected for the number of
functions: if nothing changed, less than one comparison in a hundred names a
function. Three runs or more on each side find small changes.

A function is the same on both sides if its name is. A function that moved to
another module is the same if only one function on each side has that name.

--flame draws the flame graph of what changed: a frame is as wide as the time
after. It is red for more than before, blue for less, and grey if the change may
be chance, by the same test of the times of a run. With one run on a side,
nothing is coloured.

Examples:
  fdr diff old.fdr new.fdr                 the figures of two runs
  fdr diff before/ after/                  several runs, and what is shown
  fdr diff --markdown before/ after/       a table for a pull request
  fdr diff --flame x.svg before/ after/    the paths that changed, as a picture
  fdr diff --fail-over 5% before/ after/   exit code 1 if a function got slower";

/// Show what changed between two traces, or two folders of traces
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The trace before, or a folder of traces
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The trace after, or a folder of traces
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Show at most N functions
    #[arg(short = 'n', long, value_name = "N", value_parser = ui::at_least_one)]
    limit: Option<NonZeroUsize>,
    /// Exit with 1 if it is shown that a function takes more than this part longer, as 5%
    #[arg(long, value_name = "SHARE", value_parser = super::share)]
    fail_over: Option<f64>,
    /// Print a table in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print JSON, times in nanoseconds
    #[arg(long)]
    json: bool,
    /// Draw the flame graph of what changed into this new file, an SVG
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
    /// Replace that file
    #[arg(long, requires = "flame")]
    force: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    if let Some(output) = &options.flame {
        output_file::check(output, Shape::File, options.force)?;
    }
    let before = runs::read(&options.before, &options.selection)?;
    let after = runs::read(&options.after, &options.selection)?;
    if options.fail_over.is_some() && (before.len() < 2 || after.len() < 2) {
        bail!(
            "--fail-over needs two runs or more on each side, because one run says nothing about chance: name folders \
             with several traces"
        );
    }
    let ([before, after], scope) = runs::in_one_scope([before, after]);
    let comparison = Comparison {
        scope,
        ..compare(&before, &after)
    };
    let over = options
        .fail_over
        .map_or_else(Vec::new, |share| slower(&comparison, share));
    ui::print(|out| match (options.json, options.markdown) {
        (true, _) => json::write(out, &comparison, options.limit),
        (_, true) => show::markdown(out, &comparison, options.limit),
        _ => show::table(out, &comparison, options.limit),
    })?;
    if let Some(output) = &options.flame {
        flame::write(options, output)?;
    }
    if let Some(share) = options.fail_over
        && !over.is_empty()
    {
        let count = ui::things(over.len() as u64, "function");
        let names = over.join(", ");
        ui::complain(&format!(
            "{count} slower by more than {} %: {names}",
            100.0 * share
        ));
        return Ok(Status::Violations);
    }
    Ok(Status::Done)
}

/// The functions of which it is shown that they are slower, by more than that part.
fn slower(comparison: &Comparison, share: f64) -> Vec<&str> {
    let lines = comparison.lines.iter();
    let slower = lines.filter(|line| {
        line.verdict == Verdict::Slower && line.change.is_some_and(|change| change > share)
    });
    slower.map(|line| line.name.as_str()).collect()
}
