//! `fdr graph`: who calls whom, with times and numbers of calls: for Graphviz, as a picture, for scripts.

mod dot;
mod json;
mod picture;
mod sums;

use std::path::{Path, PathBuf};

use anyhow::bail;
use fdr_formats::filter::Filter;

use self::sums::{Graph, Part};
use super::{Status, Traces};
use crate::output_file::{self, Shape};
use crate::selection::{self, Filtering, Selection};
use crate::tree::folding::{Folding, FoldingOptions};
use crate::{svg, trace, ui};

const HELP: &str = "\
A box is a function: the time from its entries to its exits, its self time, and
its calls. An arrow is a function that another one called: the time and the
number of these calls. In a recursion, time counts once. Time is shared among
all threads.

--from FUNCTION shows what happens inside of its calls. --to FUNCTION shows how
the program came to it: each time and each number is of the calls of FUNCTION
that came this way.

Functions and arrows with less than --min of all time are left out, and their
number is told. At most 200 functions are shown, those with the most time.
--filter leaves the other functions out: an arrow goes to the nearest function
that is shown.

Without -o, the graph is text in the language of Graphviz. Its program dot draws
the picture where it is installed.

Examples:
  fdr graph -o app.svg app.fdr                  a picture, for a browser
  fdr graph --from app::handle -o x.svg app.fdr what it calls
  fdr graph --to app::lock -o x.svg app.fdr     who leads to it
  fdr graph --min 0% app.fdr | dot -Tpdf > x.pdf";

/// Functions that are shown at most.
const MAX_FUNCTIONS: usize = 200;

/// Show who calls whom, with times and counts, as a picture or as DOT
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    /// Only what happens inside of calls of these functions: globs or ends of names, comma between
    #[arg(long, value_name = "FUNCTION", value_parser = selection::filter, conflicts_with = "to")]
    from: Option<Filter>,
    /// Only the calls that lead to these functions
    #[arg(long, value_name = "FUNCTION", value_parser = selection::filter)]
    to: Option<Filter>,
    /// Leave out functions and arrows below this part of all time
    #[arg(long, value_name = "SHARE", value_parser = super::share, default_value = "0.5%")]
    min: f64,
    /// Write into this new file: a picture by Graphviz if its name ends in .svg, else text for Graphviz
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Replace that file
    #[arg(long, requires = "output")]
    force: bool,
    /// Only the stretch of time of which all threads have records
    #[arg(long)]
    common: bool,
    /// Print JSON, times in nanoseconds
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Options {
    fn part(&self) -> Part<'_> {
        match (&self.from, &self.to) {
            (Some(from), _) => Part::From(from),
            (_, Some(to)) => Part::To(to),
            (None, None) => Part::All,
        }
    }
}

/// A graph with its texts.
struct TitledGraph<'a> {
    graph: &'a Graph,
    title: String,
    /// What is left out, in words; empty: nothing.
    left_out: String,
    /// `--to`: times and numbers are those of the functions at the end.
    is_to: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let output = options.output.as_deref();
    let output = output.filter(|path| *path != Path::new("-"));
    let alone = output.map(|_| "-o");
    options
        .traces
        .each_or_one(alone, |trace, _| one(options, trace, output))
}

fn one(options: &Options, trace: &Path, output: Option<&Path>) -> anyhow::Result<Status> {
    if let Some(output) = output {
        output_file::check_is_not(output, trace)?;
        output_file::check(output, Shape::File, options.force)?;
    }
    let folding = Folding::read(
        &FoldingOptions {
            selection: &options.selection,
            filtering: Filtering::Calls,
            per_thread: false,
            calls: false,
            by: None,
            common: options.common,
        },
        trace,
    )?;
    if trace::is_timeless(folding.info()) {
        bail!("{}: the calls of this trace have no times", ui::path(trace));
    }
    let mut graph = Graph::new(folding.rows(), options.part());
    if graph.nodes.is_empty()
        && let Some((option, filter)) = options.name_filter()
    {
        let names: Vec<String> = folding.rows().into_iter().map(|row| row.name).collect();
        let mut names: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !name.is_empty())
            .collect();
        names.sort_unstable();
        names.dedup();
        selection::complain_of_none(option, filter, &names, "called function");
    }
    graph.cut(options.min, MAX_FUNCTIONS);
    let drawn = TitledGraph {
        title: title(options, trace, &folding),
        left_out: left_out(options, &graph),
        is_to: options.to.is_some(),
        graph: &graph,
    };
    match output {
        Some(output) => {
            output_file::write(output, options.force, |out| match svg::is_picture(output) {
                true => picture::draw(out, &drawn),
                false => dot::write(out, &drawn),
            })?
        }
        None => ui::print(|out| match options.json {
            true => json::write(
                out,
                &trace.to_string_lossy(),
                folding.info(),
                &drawn,
                options.min,
            ),
            false => dot::write(out, &drawn),
        })?,
    }
    Ok(Status::Done)
}

impl Options {
    /// The option that names functions, and its globs.
    fn name_filter(&self) -> Option<(&'static str, &Filter)> {
        let from = self.from.as_ref().map(|from| ("--from", from));
        from.or_else(|| Some(("--to", self.to.as_ref()?)))
    }
}

fn title(options: &Options, trace: &Path, folding: &Folding) -> String {
    let info = folding.info();
    let subject = trace::program(info).unwrap_or_else(|| ui::path(trace));
    let globs = |filter: &Filter| filter.includes().join(",");
    match (&options.from, &options.to) {
        (Some(from), _) => format!("{subject}: what {} calls", globs(from)),
        (_, Some(to)) => format!("{subject}: who leads to {}", globs(to)),
        (None, None) => format!("{subject}: who calls whom"),
    }
}

/// What is not shown.
fn left_out(options: &Options, graph: &Graph) -> String {
    let [functions, edges] = graph.hidden;
    if functions + edges == 0 {
        return String::new();
    }
    let more = match graph.nodes.len() >= MAX_FUNCTIONS {
        true => format!(", or beyond {MAX_FUNCTIONS} functions"),
        false => String::new(),
    };
    format!(
        "left out: {} and {} below {} % of {}{more} (--min)",
        ui::things(functions as u64, "function"),
        ui::things(edges as u64, "arrow"),
        100.0 * options.min,
        ui::duration(graph.all),
    )
}
