//! `fdr flame`: where the time went, by the whole path of calls: the lines that tools for flame graphs read, or a
//! picture.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Status, Traces};
use crate::output_file::{self, Shape};
use crate::selection::call_options::StateName;
use crate::selection::{Filtering, Selection};
use crate::tree::folding::{Folding, FoldingOptions};
use crate::tree::paths::Paths;
use crate::tree::picture::{self, Words};
use crate::{svg, trace, ui};

const HELP: &str = "\
A line is a path of calls, from the outermost function inwards, with `;`
between, and a time in ns. The time is that of the last function by itself, on
that path. Calls that were open when the trace was written have lines of their
own, which end in [open]. All lines that end in a function, or in [open] behind
it, add up to its self time in fdr report. Lines are sorted by name. A path
without time of its own has no line.

Time in an untimed function belongs to its caller. A path that ends in an
untimed function has a line only with --calls.

--by waiting counts only the time in which the thread waited. running and
preempted are the other states. The trace must know its threads' states. Time
of which none is known is left out, and told.

A call whose entry is not in the trace has a line of its own, and the calls
that it made are not below it. A path of more than 1000 functions ends in
[more]. Of more than 262,144 paths the shortest stay; all others are one line,
[more].

-o app.svg draws the flame graph: a frame for each path, as wide as its time,
below the frame of its caller. A click zooms in, Ctrl+F searches. Several traces
are one picture. fdr diff --flame compares two sides.

Examples:
  fdr flame -o app.svg app.fdr    the picture, for a browser
  fdr flame app.fdr > app.folded  for speedscope.app and flamegraph.pl
  fdr flame --per-thread app.fdr  paths begin with the thread
  fdr flame --common app.fdr      the time of which all threads have records
  fdr flame --calls app.fdr       by the number of calls
  fdr flame --by waiting app.fdr  by the time of waiting";

/// Show time by path of calls: a flame graph, or folded lines
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    /// Begin each path with the thread
    #[arg(long)]
    per_thread: bool,
    /// Count calls instead of time
    #[arg(long)]
    calls: bool,
    /// Count only the time in which the thread ran, was preempted, or waited
    #[arg(long, value_name = "STATE", value_enum, conflicts_with = "calls")]
    by: Option<StateName>,
    /// Only the stretch of time of which all threads have records
    #[arg(long)]
    common: bool,
    /// Write into FILE instead: a picture if its name ends in .svg, else the lines
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace that file
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let Some(output) = options
        .output
        .as_deref()
        .filter(|path| *path != Path::new("-"))
    else {
        return options.traces.each(|trace, _| {
            let folding = Folding::read(&options.folding_options(), trace)?;
            ui::print(|out| folding.write(out))?;
            Ok(Status::Done)
        });
    };
    output_file::check(output, Shape::File, options.force)?;
    let folding_options = options.folding_options();
    let is_picture = svg::is_picture(output);
    let (mut paths, mut lines, mut heads) = (Paths::default(), Vec::new(), Vec::new());
    let status = options.traces.each(|trace, _| {
        output_file::check_is_not(output, trace)?;
        let folding = Folding::read(&folding_options, trace)?;
        match is_picture {
            true => folding
                .add_to(&mut paths, 1)
                .with_context(|| ui::path(trace))?,
            false => folding.write(&mut lines)?,
        }
        heads.push(trace::program(folding.info()).unwrap_or_else(|| ui::path(trace)));
        Ok(Status::Done)
    })?;
    paths.settle([1, 1]);
    output_file::write(output, options.force, |out| match is_picture {
        true => draw(out, options, &paths, &heads),
        false => Ok(out.write_all(&lines)?),
    })?;
    Ok(status)
}

/// The picture of the paths of all traces.
fn draw(
    out: &mut dyn Write,
    options: &Options,
    paths: &Paths,
    heads: &[String],
) -> anyhow::Result<()> {
    let traces = match heads {
        [one] => one.clone(),
        several => ui::things(several.len() as u64, "trace"),
    };
    let (what, value): (&str, fn(u64) -> String) = match (options.calls, options.by) {
        (true, _) => ("calls by path", ui::count),
        (_, None) => ("time by path of calls", ui::duration),
        (_, Some(StateName::Running)) => ("time of running by path of calls", ui::duration),
        (_, Some(StateName::Preempted)) => {
            ("time of being preempted by path of calls", ui::duration)
        }
        (_, Some(StateName::Waiting)) => ("time of waiting by path of calls", ui::duration),
    };
    let [_, all] = paths.all();
    if all == 0 {
        anyhow::bail!(
            "nothing to draw: no path has a {}",
            if options.calls { "call" } else { "time" }
        );
    }
    let words = Words {
        title: &format!("{traces}: {what}"),
        subtitle: &format!("{} in all", value(all)),
        value,
        is_change: false,
    };
    picture::draw(out, paths, &words)
}

impl Options {
    fn folding_options(&self) -> FoldingOptions<'_> {
        FoldingOptions {
            selection: &self.selection,
            filtering: Filtering::Shown,
            per_thread: self.per_thread,
            calls: self.calls,
            by: self.by.map(StateName::state),
            common: self.common,
        }
    }
}
