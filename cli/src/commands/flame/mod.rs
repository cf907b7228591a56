//! `fdr flame`: where the time went, by the whole path of calls: the lines that tools for flame graphs read, or a
//! picture.

pub(in crate::commands) mod folder;
mod line;
mod paths;
mod picture;
#[cfg(test)]
pub(crate) mod tests;
pub(in crate::commands) mod tree;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use fdr_formats::calls::untimed;
use fdr_formats::filter::Filter;
use fdr_formats::model::State;
use fdr_formats::source::drive_parallel;
use fdr_formats::states::States;
use fdr_formats::{Source, Ticks, TraceInfo};

use self::folder::{Folded, Folder, gather};
pub(crate) use self::paths::Paths;
pub(crate) use self::picture::{Words, draw as draw_picture};
use self::tree::{Label, Node, NodeId, Tree};
use super::{Status, Traces};
use crate::place::{self, Shape};
use crate::report::names::name_of;
use crate::selection::of_calls::StateName;
use crate::selection::{self, Filtering, Selection};
use crate::ui::{self, Progress};
use crate::windows::{Windows, is_cut};
use crate::{away, memory, svg, trace};

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

-o app.svg draws the flame graph: a frame for each path, as wide as its time, on
the frame of its caller. A click zooms in. Several traces are one picture. fdr
diff --flame compares two sides.

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
            let folding = Folding::of(&options.asked(), trace)?;
            ui::print(|out| folding.write(out))?;
            Ok(Status::Done)
        });
    };
    place::check(output, Shape::File, options.force)?;
    let asked = options.asked();
    let is_picture = svg::is_picture(output);
    let (mut paths, mut lines, mut heads) = (Paths::default(), Vec::new(), Vec::new());
    let status = options.traces.each(|trace, _| {
        place::check_is_not(output, trace)?;
        let folding = Folding::of(&asked, trace)?;
        match is_picture {
            true => folding
                .add_to(&mut paths, 1)
                .with_context(|| ui::path(trace))?,
            false => folding.write(&mut lines)?,
        }
        heads.push(head(folding.source.info(), trace));
        Ok(Status::Done)
    })?;
    paths.settle([1, 1]);
    place::write(output, options.force, |out| match is_picture {
        true => draw(out, options, &paths, &heads),
        false => Ok(out.write_all(&lines)?),
    })?;
    Ok(status)
}

/// Whom a trace is of.
fn head(info: &TraceInfo, trace: &Path) -> String {
    match (info.program.as_str(), info.process) {
        ("", _) => ui::path(trace),
        (program, None) => program.to_owned(),
        (program, Some(process)) => format!("{program} (process {process})"),
    }
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

/// What is asked of a trace.
pub(crate) struct Asked<'a> {
    pub(crate) selection: &'a Selection,
    /// Whether calls of other functions than `--filter` are left out, or not shown.
    pub(crate) filtering: Filtering,
    pub(crate) per_thread: bool,
    pub(crate) calls: bool,
    pub(crate) by: Option<State>,
    pub(crate) common: bool,
}

impl Options {
    fn asked(&self) -> Asked<'_> {
        Asked {
            selection: &self.selection,
            filtering: Filtering::Shown,
            per_thread: self.per_thread,
            calls: self.calls,
            by: self.by.map(StateName::state),
            common: self.common,
        }
    }
}

/// A path.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The path of its caller.
    pub(crate) caller: usize,
    pub(crate) name: String,
    /// It ends in a function, or in what stands for functions.
    pub(crate) is_function: bool,
    /// It stands for the calls of its caller that were open in the end.
    pub(crate) is_open: bool,
    /// ns.
    pub(crate) own: u64,
    pub(crate) calls: u64,
}

/// The paths of one trace.
pub(crate) struct Folding {
    source: Box<dyn Source>,
    tree: Tree,
    /// What `--filter` shows, if it is given.
    shown: HashMap<Label, bool>,
    calls: bool,
}

impl Folding {
    /// Follows the calls of a trace. What is damaged in it is told.
    ///
    /// # Errors
    /// Where the trace can't be read, or takes too much memory.
    pub(crate) fn of(asked: &Asked<'_>, trace: &Path) -> anyhow::Result<Folding> {
        let mut source = asked.selection.open(trace, asked.filtering)?;
        // Where nothing is overwritten, nothing is to be told.
        let info = source.info();
        let windows = match info.threads.iter().any(is_cut) && !trace::is_timeless(info) {
            true => Windows::of_trace(&*source).map_err(|error| trace::about(trace, error))?,
            false => None,
        };
        if let Some(windows) = windows.as_ref().filter(|_| asked.common) {
            source = selection::from_on(source, windows.common());
        }
        let ends_early = asked.selection.ends_early();
        let folded = fold(asked, trace, &*source, ends_early)?;
        let info = source.info();
        let note = windows.and_then(|windows| windows.note(&info.clock));
        if let Some(note) = note.filter(|_| !asked.common) {
            let trace = ui::path(trace);
            ui::complain(&format!("{trace}: {note} (--common takes only that)"));
        }
        if folded.unknown > Ticks(0) {
            let trace = ui::path(trace);
            let time = ui::duration(info.clock.nanos(folded.unknown).0);
            ui::complain(&format!(
                "{trace}: of {time} of its threads, no state is known"
            ));
        }
        let shown = match asked.selection.filter() {
            Some(filter) if asked.filtering == Filtering::Shown => {
                shown(filter, info, &folded.tree)
            }
            _ => HashMap::new(),
        };
        Ok(Folding {
            tree: folded.tree,
            shown,
            calls: asked.calls,
            source,
        })
    }

    /// The same of a source, of which nothing is left out.
    ///
    /// # Errors
    /// As [`Folding::of`].
    pub(in crate::commands) fn of_source(
        trace: &Path,
        source: Box<dyn Source>,
        by: Option<State>,
        ends_early: bool,
    ) -> anyhow::Result<Folding> {
        let selection = Selection::default();
        let asked = Asked {
            filtering: Filtering::Shown,
            selection: &selection,
            per_thread: false,
            calls: false,
            by,
            common: false,
        };
        let tree = fold(&asked, trace, &*source, ends_early)?.tree;
        Ok(Folding {
            tree,
            shown: HashMap::new(),
            calls: false,
            source,
        })
    }

    /// What a path has by itself: ns, or calls.
    fn value(&self, node: &Node) -> u64 {
        match self.calls {
            _ if self.shown.get(&self.tree.of(node)) == Some(&false) => 0,
            true => node.calls,
            false => self.source.info().clock.nanos(Ticks(node.own)).0,
        }
    }

    /// Writes a line for each path.
    fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        write(out, self.source.info(), &self.tree, &|node| {
            self.value(node)
        })
    }

    /// The trace.
    pub(crate) fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    /// The paths one by one, callers first. The first is that of everything.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let info = self.source.info();
        let row = |(_, node): (NodeId, &Node)| Row {
            caller: node.caller.index(),
            name: match node.label {
                Label::Function(id) => name_of(info, id),
                label => name(info, label),
            },
            is_function: matches!(node.label, Label::Function(_) | Label::Others),
            is_open: node.label == Label::Open,
            own: info.clock.nanos(Ticks(node.own)).0,
            calls: node.calls,
        };
        self.tree.nodes().map(row).collect()
    }

    /// Adds the paths to those of other traces.
    ///
    /// # Errors
    /// Where the names take too much memory.
    pub(crate) fn add_to(&self, paths: &mut Paths, side: usize) -> io::Result<()> {
        let info = self.source.info();
        let mut places: Vec<usize> = Vec::with_capacity(self.tree.len());
        for (_, node) in self.tree.nodes() {
            let place = match node.label {
                Label::Root => paths::ROOT,
                label => {
                    let caller = places.get(node.caller.index()).copied();
                    paths.below(caller.unwrap_or(paths::ROOT), &name(info, label))?
                }
            };
            paths.add(place, side, self.value(node));
            places.push(place);
        }
        Ok(())
    }
}

/// The paths of all calls.
fn fold(
    asked: &Asked<'_>,
    trace: &Path,
    source: &dyn Source,
    ends_early: bool,
) -> anyhow::Result<Folded> {
    memory::grows("the paths of calls");
    let progress = Progress::new(source);
    let untimed = untimed(source.info());
    let one_by_one = trace::has_lane_for_each_thread(source);
    let has_marks = !ends_early;
    let by = match asked.by {
        Some(by) => Some((by, states_of(trace, source.info())?)),
        None => None,
    };
    let make = || {
        let folder = Folder::new(&untimed, asked.per_thread).one_by_one(one_by_one);
        let folder = folder.until(source.info().end).with_marks(has_marks);
        folder.by(by.clone())
    };
    let folders = drive_parallel(source, ui::jobs(), make, &|bytes| progress.add(bytes));
    drop(progress);
    let folders = folders.map_err(|error| trace::about(trace, error))?;
    let mut folded = gather(folders);
    folded.diagnostics.extend_from_slice(source.diagnostics());
    folded
        .diagnostics
        .sort_by_key(|diagnostic| diagnostic.offset);
    trace::warn_of_damage(trace, &folded.diagnostics, folded.more_diagnostics);
    Ok(folded)
}

/// Which labels `--filter` shows. Who filters in vain is told what there is.
fn shown(filter: &Filter, info: &TraceInfo, tree: &Tree) -> HashMap<Label, bool> {
    let mut shown: HashMap<Label, bool> = HashMap::new();
    for (_, node) in tree.nodes() {
        let is_shown = |label| match label {
            Label::Function(id) => filter.matches(&name_of(info, id)),
            Label::Root | Label::Thread(_) | Label::Others | Label::Open | Label::Short => false,
        };
        let label = tree.of(node);
        shown.entry(label).or_insert_with(|| is_shown(label));
    }
    if !shown.values().any(|&is_shown| is_shown) {
        let called = shown.keys().filter_map(|label| match label {
            Label::Function(id) => Some(name_of(info, *id)),
            _ => None,
        });
        let mut called: Vec<String> = called.collect();
        called.sort_unstable();
        let called: Vec<&str> = called.iter().map(String::as_str).collect();
        selection::complain_of_none("--filter", filter, &called, "called function");
    }
    shown
}

/// The states of the threads.
fn states_of(trace: &Path, info: &TraceInfo) -> anyhow::Result<Arc<States>> {
    let none = || {
        anyhow::anyhow!(
            "{}: the trace knows no states of its threads",
            ui::path(trace)
        )
    };
    away::states_of(info).ok_or_else(none)
}

/// Every path with a value, in the order of names.
pub(in crate::commands) fn write(
    out: &mut dyn Write,
    info: &TraceInfo,
    tree: &Tree,
    value: &dyn Fn(&Node) -> u64,
) -> anyhow::Result<()> {
    let mut names = HashMap::new();
    for (_, node) in tree.nodes() {
        names
            .entry(node.label)
            .or_insert_with(|| name(info, node.label));
    }
    let name = |node: &Node| names.get(&node.label).map_or("", String::as_str);
    // By caller, the last name first: those at the end are written first.
    let mut order: Vec<(NodeId, &Node)> = tree.nodes().skip(1).collect();
    order.sort_by_key(|(_, node)| (node.caller, std::cmp::Reverse((name(node), node.label))));
    let called = |caller: NodeId| {
        let first = order.partition_point(|(_, node)| node.caller < caller);
        let last = order.partition_point(|(_, node)| node.caller <= caller);
        &order[first..last]
    };
    let mut waiting: Vec<(usize, NodeId, &Node)> = Vec::new();
    let below = |depth: usize, id| called(id).iter().map(move |&(id, node)| (depth, id, node));
    waiting.extend(below(0, NodeId::ROOT));
    let mut path: Vec<&str> = Vec::new();
    while let Some((depth, id, node)) = waiting.pop() {
        path.truncate(depth);
        path.push(name(node));
        match value(node) {
            0 => {}
            value => writeln!(out, "{} {value}", path.join(";"))?,
        }
        waiting.extend(below(depth + 1, id));
    }
    Ok(())
}

/// As the readers of such lines take it: `;` has a meaning there.
fn name(info: &TraceInfo, label: Label) -> String {
    match label {
        Label::Root => String::new(),
        Label::Function(id) => ui::clean(&name_of(info, id)).replace(';', ":"),
        Label::Thread(id) => {
            let thread = info.threads.iter().find(|thread| thread.id == id);
            let name = thread.map_or("", |thread| &thread.name);
            let name = ui::clean(name).replace(';', ":");
            format!("{name} (thread {id})").trim_start().to_owned()
        }
        Label::Others => "[more]".to_owned(),
        Label::Open => "[open]".to_owned(),
        Label::Short => "[short]".to_owned(),
    }
}
