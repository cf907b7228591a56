//! The sink of `fdr flame`: gives each thread's calls to its line, and all lines one tree. Every worker has a folder of
//! its own.

use std::collections::HashMap;
use std::sync::Arc;

use fdr_formats::calls::{Untimed, Window};
use fdr_formats::model::State;
use fdr_formats::packed::Packed;
use fdr_formats::states::States;
use fdr_formats::{Call, Diagnostic, Mark, Sink, Thread, ThreadId, Ticks};

use super::call_tree::{Label, MAX_PATHS, NodeId, Tree};
use super::line::Line;
use crate::damage::Damage;
use crate::off_cpu::Absence;

/// A worker's share of the trace.
#[derive(Debug)]
pub(crate) struct Folder {
    per_thread: bool,
    /// A thread has ended when another one begins.
    one_by_one: bool,
    untimed: Untimed,
    /// The moment of the dump, where it is known.
    end: Option<Ticks>,
    /// The trace marks the calls that were open at that moment.
    has_marks: bool,
    /// The state whose time is counted, and the states of the threads.
    by: Option<(State, Arc<States>)>,
    window: Window<NodeId>,
    /// The most paths of the finished tree.
    most: usize,
    tree: Tree,
    lines: Vec<(ThreadId, Line)>,
    by_id: HashMap<ThreadId, usize>,
    current: usize,
    damage: Damage,
}

/// What all folders found.
pub(crate) struct Folded {
    pub(crate) tree: Tree,
    /// If the time of one state is counted alone: the time in which a thread's state is not known.
    pub(crate) unknown: Ticks,
    /// In the order of the file, at most [`MAX_DIAGNOSTICS`](crate::damage::MAX_DIAGNOSTICS).
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) more_diagnostics: u64,
}

impl Folder {
    /// A folder whose paths begin with the thread, or with the outermost function. `untimed`: functions
    /// without times.
    pub(crate) fn new(untimed: &Untimed, per_thread: bool) -> Folder {
        Folder {
            per_thread,
            one_by_one: false,
            untimed: untimed.clone(),
            end: None,
            has_marks: true,
            by: None,
            window: Window::default(),
            most: MAX_PATHS,
            tree: Tree::default(),
            lines: Vec::new(),
            by_id: HashMap::new(),
            current: 0,
            damage: Damage::default(),
        }
    }

    /// For a source that gives its threads one after the other, each once.
    pub(crate) fn one_by_one(self, one_by_one: bool) -> Folder {
        Folder { one_by_one, ..self }
    }

    /// For a trace that was written at `end`.
    pub(crate) fn until(self, end: Option<Ticks>) -> Folder {
        Folder { end, ..self }
    }

    /// Whether calls that were open at the end of the trace get nodes of their own.
    pub(crate) fn with_marks(self, has_marks: bool) -> Folder {
        Folder { has_marks, ..self }
    }

    /// A folder that counts only the time in one state.
    pub(crate) fn with_state(self, by: Option<(State, Arc<States>)>) -> Folder {
        Folder { by, ..self }
    }

    /// A folder with a lower limit of paths.
    #[cfg(test)]
    pub(crate) fn with_most(self, most: usize) -> Folder {
        Folder { most, ..self }
    }

    /// Keeps the tree within bounds.
    fn bound(&mut self) {
        if self.tree.len() > room_for(self.most)
            && let Some(places) = self.tree.shrink(self.most)
        {
            self.lines
                .iter_mut()
                .for_each(|(_, line)| line.moved(&places));
        }
    }
}

/// The nodes that a growing tree may have before it is cut down to `most`. The margin makes the cuts rare.
fn room_for(most: usize) -> usize {
    most + most / 2
}

impl Sink for Folder {
    fn thread(&mut self, thread: &Thread) {
        if let Some(&known) = self.by_id.get(&thread.id) {
            self.current = known;
            return;
        }
        if let (true, Some((_, ended))) = (self.one_by_one, self.lines.get_mut(self.current)) {
            ended.finish(&mut self.tree);
        }
        let root = match self.per_thread {
            false => NodeId::ROOT,
            true => self.tree.child(NodeId::ROOT, Label::Thread(thread.id)),
        };
        let line = Line::new(root, self.untimed.clone(), self.end);
        let line = match &self.by {
            Some((state, states)) => {
                let absence = Absence::new(states, thread.id, &self.untimed);
                line.with_state(*state, absence)
            }
            None => line,
        };
        self.current = self.lines.len();
        self.by_id.insert(thread.id, self.current);
        self.lines
            .push((thread.id, line.with_marks(self.has_marks)));
    }

    fn calls(&mut self, calls: &[Call]) {
        if self.lines.is_empty() {
            self.thread(&Thread::default());
        }
        let (_, line) = &mut self.lines[self.current];
        line.run(&mut self.window, &mut self.tree, calls);
        self.bound();
    }

    fn packed(&mut self, packed: &Packed<'_>) {
        if self.lines.is_empty() {
            self.thread(&Thread::default());
        }
        let (_, line) = &mut self.lines[self.current];
        line.run_packed(&mut self.window, &mut self.tree, packed);
        self.bound();
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some((_, line)) = self.lines.get_mut(self.current) else {
            return;
        };
        match *mark {
            Mark::Lost { .. } => line.lose(),
            Mark::ShortCalls { time, calls, ticks } => {
                line.short_calls(&mut self.tree, time, calls, ticks);
            }
            _ => {}
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.damage.add(diagnostic);
    }
}

/// Ends the folders and adds up what they have.
pub(crate) fn gather(folders: Vec<Folder>) -> Folded {
    let (mut tree, mut damage) = (Tree::default(), Damage::default());
    let mut unknown = 0_u64;
    let most = folders.first().map_or(MAX_PATHS, |folder| folder.most);
    for mut folder in folders {
        for (_, line) in &mut folder.lines {
            unknown = unknown.saturating_add(line.unknown().0);
            line.finish(&mut folder.tree);
        }
        // The larger one stays.
        if folder.tree.len() > tree.len() {
            std::mem::swap(&mut folder.tree, &mut tree);
        }
        tree.join(&folder.tree);
        if tree.len() > room_for(most) {
            tree.shrink(most);
        }
        damage.join(folder.damage);
    }
    tree.shrink(most);
    let (diagnostics, more_diagnostics) = damage.into_parts();
    Folded {
        tree,
        unknown: Ticks(unknown),
        diagnostics,
        more_diagnostics,
    }
}
