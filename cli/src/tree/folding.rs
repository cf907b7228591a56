//! The paths of the calls of one trace: its calls are followed, and all paths are one tree.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use fdr_formats::calls::untimed;
use fdr_formats::filter::Filter;
use fdr_formats::model::State;
use fdr_formats::states::States;
use fdr_formats::{Source, Ticks, TraceInfo};

use super::call_tree::{Label, Node, NodeId, Tree};
use super::folded_lines::{self, name};
use super::folder::{Folded, Folder, gather};
use super::paths::{self, Paths};
use crate::report::names::name_of;
use crate::selection::{self, Filtering, Selection};
use crate::ui;
use crate::windows::{Windows, is_cut};
use crate::{memory, off_cpu, trace};

/// The options for folding a trace.
pub(crate) struct FoldingOptions<'a> {
    pub(crate) selection: &'a Selection,
    /// Whether calls of other functions than `--filter` are left out, or not shown.
    pub(crate) filtering: Filtering,
    pub(crate) per_thread: bool,
    pub(crate) calls: bool,
    pub(crate) by: Option<State>,
    pub(crate) common: bool,
}

/// A path.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The path of its caller.
    pub(crate) caller: usize,
    pub(crate) name: String,
    /// It ends in a function, or in what stands for functions.
    pub(crate) is_function: bool,
    /// The node stands for the calls of its caller that were open at the end.
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
    shown_labels: HashMap<Label, bool>,
    calls: bool,
}

impl Folding {
    /// Follows the calls of a trace, and reports its damage.
    ///
    /// # Errors
    /// Where the trace can't be read, or takes too much memory.
    pub(crate) fn read(options: &FoldingOptions<'_>, trace: &Path) -> anyhow::Result<Folding> {
        let mut source = options.selection.open(trace, options.filtering)?;
        // Windows matter only where records are overwritten.
        let info = source.info();
        let windows = match info.threads.iter().any(is_cut) && !trace::is_timeless(info) {
            true => Windows::of_trace(&*source).map_err(|error| trace::about(trace, error))?,
            false => None,
        };
        if let Some(windows) = windows.as_ref().filter(|_| options.common) {
            source = selection::from_on(source, windows.common());
        }
        let ends_early = options.selection.ends_early();
        let folded = fold(options, trace, &*source, ends_early)?;
        let info = source.info();
        let note = windows.and_then(|windows| windows.note(&info.clock));
        if let Some(note) = note.filter(|_| !options.common) {
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
        let shown_labels = match options.selection.filter() {
            Some(filter) if options.filtering == Filtering::Shown => {
                shown_labels(filter, info, &folded.tree)
            }
            _ => HashMap::new(),
        };
        Ok(Folding {
            tree: folded.tree,
            shown_labels,
            calls: options.calls,
            source,
        })
    }

    /// The same for all of a source.
    ///
    /// # Errors
    /// As [`Folding::read`].
    pub(crate) fn of_source(
        trace: &Path,
        source: Box<dyn Source>,
        by: Option<State>,
        ends_early: bool,
    ) -> anyhow::Result<Folding> {
        let selection = Selection::default();
        let options = FoldingOptions {
            filtering: Filtering::Shown,
            selection: &selection,
            per_thread: false,
            calls: false,
            by,
            common: false,
        };
        let tree = fold(&options, trace, &*source, ends_early)?.tree;
        Ok(Folding {
            tree,
            shown_labels: HashMap::new(),
            calls: false,
            source,
        })
    }

    /// What a path has by itself: ns, or calls.
    fn value(&self, node: &Node) -> u64 {
        match self.calls {
            _ if self.shown_labels.get(&self.tree.label_of(node)) == Some(&false) => 0,
            true => node.calls,
            false => self.source.info().clock.nanos(Ticks(node.own)).0,
        }
    }

    /// Writes a line for each path.
    pub(crate) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        folded_lines::write(out, self.source.info(), &self.tree, &|node| {
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
    options: &FoldingOptions<'_>,
    trace: &Path,
    source: &dyn Source,
    ends_early: bool,
) -> anyhow::Result<Folded> {
    memory::grows("the paths of calls");
    let untimed = untimed(source.info());
    let one_by_one = trace::has_lane_for_each_thread(source);
    let has_marks = !ends_early;
    let by = match options.by {
        Some(by) => Some((by, states_of(trace, source.info())?)),
        None => None,
    };
    let make = || {
        let folder = Folder::new(&untimed, options.per_thread).one_by_one(one_by_one);
        let folder = folder.until(source.info().end).with_marks(has_marks);
        folder.with_state(by.clone())
    };
    let folders = ui::drive(source, make).map_err(|error| trace::about(trace, error))?;
    let mut folded = gather(folders);
    folded.diagnostics.extend_from_slice(source.diagnostics());
    folded
        .diagnostics
        .sort_by_key(|diagnostic| diagnostic.offset);
    trace::warn_of_damage(trace, &folded.diagnostics, folded.more_diagnostics);
    Ok(folded)
}

/// Which labels `--filter` shows. If the filter matches no function, the message names functions of
/// the trace.
fn shown_labels(filter: &Filter, info: &TraceInfo, tree: &Tree) -> HashMap<Label, bool> {
    let mut shown: HashMap<Label, bool> = HashMap::new();
    for (_, node) in tree.nodes() {
        let is_shown = |label| match label {
            Label::Function(id) => filter.matches(&name_of(info, id)),
            Label::Root | Label::Thread(_) | Label::Others | Label::Open | Label::Short => false,
        };
        let label = tree.label_of(node);
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
    off_cpu::states_of(info).ok_or_else(none)
}
