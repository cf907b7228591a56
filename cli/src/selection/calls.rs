//! The calls of a window, and those inside of chosen functions, picked out of a lane. Open calls are followed from the
//! lane's beginning. A call that reaches over an edge of the window is clipped: it gets a synthetic entry where the
//! window begins, or a synthetic exit where it ends.

use std::collections::HashMap;

use fdr_formats::calls::{Exit, Rule};
use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::source::Record;
use fdr_formats::{
    Call, CpuId, Diagnostic, Edge, FunctionId, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo,
};

use super::{FunctionMatcher, ResolvedSelection};

/// Gives on what is chosen of the calls.
pub(super) struct Calls<'a> {
    sink: &'a mut dyn Sink,
    chosen: &'a ResolvedSelection,
    filter: FunctionMatcher<'a>,
    within: FunctionMatcher<'a>,
    threads: Vec<(Thread, Open)>,
    by_id: HashMap<ThreadId, usize>,
    /// `None`: a thread that is not chosen.
    current: Option<usize>,
    /// The source has named a thread.
    named: bool,
    batch: Vec<Call>,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Before,
    Inside,
    Behind,
}

/// A call that was entered and not yet left.
#[derive(Clone, Copy, Debug)]
struct Frame {
    function: FunctionId,
    /// It is chosen.
    is_shown: bool,
}

/// A thread's open calls.
#[derive(Debug, Default)]
pub(super) struct Open {
    frames: Vec<Frame>,
    rule: Rule,
    /// The outermost open call of a function inside of which all is chosen: its place.
    root: Option<usize>,
    /// The outermost open poll inside of which all is chosen: its place.
    poll: Option<usize>,
    part: Part,
    /// The latest time so far.
    now: Ticks,
    cpu: Option<CpuId>,
    /// Whether the call before was given on.
    is_forwarded: bool,
}

impl<'a> Calls<'a> {
    pub(super) fn new(
        sink: &'a mut dyn Sink,
        info: &'a TraceInfo,
        chosen: &'a ResolvedSelection,
    ) -> Calls<'a> {
        Calls {
            sink,
            chosen,
            filter: FunctionMatcher::new(info, chosen.filter.as_slice()),
            within: FunctionMatcher::new(info, &chosen.within),
            threads: Vec::new(),
            by_id: HashMap::new(),
            current: None,
            named: false,
            batch: Vec::new(),
        }
    }

    /// The lane has ended: calls that are open all through the window have no record in it.
    pub(super) fn finish(&mut self) {
        for place in 0..self.threads.len() {
            let (thread, open) = &self.threads[place];
            if open.part == Part::Behind || !open.frames.iter().any(|frame| frame.is_shown) {
                continue;
            }
            self.sink.thread(thread);
            self.current = Some(place);
            if open.part == Part::Before {
                self.begin();
            }
            if self.chosen.to.is_some() {
                self.end();
            }
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.batch.is_empty() {
            self.sink.calls(&self.batch);
            self.batch.clear();
        }
    }

    /// Whether the selection takes the events inside the thread's innermost open call, apart from the filter of names.
    fn is_within(&self, open: &Open) -> bool {
        (self.chosen.within.is_empty() || open.root.is_some())
            && (self.chosen.polls.is_none() || open.poll.is_some())
    }

    fn open(&mut self) -> Option<&mut Open> {
        self.threads.get_mut(self.current?).map(|(_, open)| open)
    }

    /// Whether the current thread is before, inside or behind the window at `time`. If the time has passed an edge of
    /// the window, sends the sink that edge's marks and synthetic edges.
    fn part(&mut self, time: Ticks) -> Part {
        let (from, to) = (self.chosen.from, self.chosen.to);
        let Some(open) = self.open() else {
            return Part::Behind;
        };
        open.now = open.now.max(time);
        let now = open.now;
        if open.part == Part::Before && from.is_none_or(|from| now >= from) {
            self.begin();
        }
        if to.is_some_and(|to| now > to)
            && self.open().is_some_and(|open| open.part == Part::Inside)
        {
            self.end();
        }
        self.open().map_or(Part::Behind, |open| open.part)
    }

    /// The window begins.
    fn begin(&mut self) {
        let from = self.chosen.from;
        let Some((_, open)) = self.current.and_then(|place| self.threads.get_mut(place)) else {
            return;
        };
        open.part = Part::Inside;
        let Some(time) = from else { return };
        if let Some(cpu) = open.cpu {
            self.sink.mark(&Mark::Cpu { time, cpu });
        }
        let shown = open.frames.iter().filter(|frame| frame.is_shown);
        self.batch
            .extend(shown.map(|frame| synthetic(time, frame.function, Edge::Entry)));
    }

    /// The window ends.
    fn end(&mut self) {
        let to = self.chosen.to.unwrap_or_default();
        let Some((_, open)) = self.current.and_then(|place| self.threads.get_mut(place)) else {
            return;
        };
        open.part = Part::Behind;
        let shown = open.frames.iter().rev().filter(|frame| frame.is_shown);
        self.batch
            .extend(shown.map(|frame| synthetic(to, frame.function, Edge::Exit)));
        // Nothing of the thread is asked for any more.
        open.frames = Vec::new();
    }

    /// Where a note is: inside, if it is chosen. Arguments go with the innermost open call. Events and tasks are chosen by their
    /// names. A state of the thread has no name to choose it by.
    fn note(&mut self, time: Ticks, kind: NoteKind, body: &[u8]) -> Part {
        let part = self.part(time);
        let name = body_name(kind, body);
        let is_named =
            self.chosen.filter.is_none() || name.is_some_and(|name| self.filter.is(name));
        let Some((_, open)) = self.current.and_then(|place| self.threads.get(place)) else {
            return Part::Behind;
        };
        let is_chosen = match kind {
            NoteKind::Arguments => self.is_shown(),
            _ => is_named && self.is_within(open),
        };
        if is_chosen { part } else { Part::Behind }
    }

    /// Whether calls inside of the innermost open call are chosen if their functions are not known.
    fn is_shown(&self) -> bool {
        let everything = self.chosen.filter.is_none() && self.chosen.is_anywhere();
        let open = self.current.and_then(|place| self.threads.get(place));
        let innermost = open.and_then(|(_, open)| open.frames.last());
        innermost.map_or(everything, |frame| frame.is_shown)
    }

    fn call(&mut self, call: &Call) {
        let before = self.open().map_or(call.time, |open| open.now);
        let part = self.part(call.time);
        if part == Part::Behind {
            return;
        }
        let function = call.function;
        let named = self.chosen.filter.is_none() || self.filter.is(function);
        let root = !self.chosen.within.is_empty() && self.within.is(function);
        let chosen = self.chosen;
        let Some((thread, open)) = self.current.and_then(|place| self.threads.get_mut(place))
        else {
            return;
        };
        let is_shown = match call.edge {
            Edge::Entry => {
                let polls = chosen.polls.as_ref();
                let poll = polls.is_some_and(|polls| polls.begins_with(thread.id, call));
                let inside = chosen.within.is_empty() || root || open.root.is_some();
                let is_shown = inside && named && (polls.is_none() || poll || open.poll.is_some());
                open.enter(Frame { function, is_shown }, root, poll);
                is_shown
            }
            Edge::Exit | Edge::TailExit => match open.leave(function) {
                ExitTarget::Frame(at) => {
                    let is_shown = open.frames[at].is_shown;
                    // The calls inside have no exits of their own. A sink that gets this exit ends them by it. If this
                    // exit is not shown, the shown calls inside get synthetic exits here.
                    if !is_shown && part == Part::Inside {
                        let inner = open.frames[at + 1..]
                            .iter()
                            .rev()
                            .filter(|frame| frame.is_shown);
                        let exit = |frame: &Frame| synthetic(before, frame.function, Edge::Exit);
                        self.batch.extend(inner.map(exit));
                    }
                    open.close(at);
                    is_shown
                }
                ExitTarget::Nothing => {
                    named && chosen.polls.is_none() && (chosen.within.is_empty() || root)
                }
            },
        };
        open.is_forwarded = is_shown && part == Part::Inside;
        if open.is_forwarded {
            self.batch.push(*call);
        }
    }
}

/// What an exit belongs to.
enum ExitTarget {
    /// The open call at that place.
    Frame(usize),
    /// No open call.
    Nothing,
}

impl Open {
    /// Follows a record of a listing. Returns whether the record is an edge of a call of a chosen function, or lies inside
    /// of such a call.
    pub(super) fn follow(&mut self, record: &Record<'_>, is_chosen: bool) -> bool {
        let was_within = self.root.is_some();
        match record.edge.zip(record.function) {
            Some((Edge::Entry, function)) => {
                let is_shown = was_within || is_chosen;
                self.enter(Frame { function, is_shown }, is_chosen, false);
            }
            Some((Edge::Exit | Edge::TailExit, function)) => {
                if let ExitTarget::Frame(at) = self.leave(function) {
                    self.close(at);
                }
            }
            None => {}
        }
        was_within || is_chosen
    }

    fn enter(&mut self, frame: Frame, root: bool, poll: bool) {
        self.rule.entered(1);
        if root {
            self.root.get_or_insert(self.frames.len());
        }
        if poll {
            self.poll.get_or_insert(self.frames.len());
        }
        self.frames.push(frame);
    }

    /// Finds the call that is left; it is still open.
    fn leave(&mut self, function: FunctionId) -> ExitTarget {
        let is = |frame: &Frame| frame.function == function;
        match self.rule.exit(&self.frames, is) {
            Exit::Innermost => ExitTarget::Frame(self.frames.len() - 1),
            Exit::Outer(inside) => ExitTarget::Frame(self.frames.len() - 1 - inside),
            Exit::Before | Exit::Lone => ExitTarget::Nothing,
        }
    }

    /// The call at that place has ended, and those in it.
    fn close(&mut self, at: usize) {
        self.frames.truncate(at);
        self.root = self.root.filter(|&root| root < at);
        self.poll = self.poll.filter(|&poll| poll < at);
    }
}

/// What a note is called. `None`: nothing, or it is damaged.
fn body_name(kind: NoteKind, body: &[u8]) -> Option<FunctionId> {
    let name = Note::decode(kind, body)?.name();
    (name > 0).then_some(FunctionId(name))
}

fn synthetic(time: Ticks, function: FunctionId, edge: Edge) -> Call {
    Call {
        time,
        function,
        edge,
        synthetic: true,
        has_arguments: false,
    }
}

impl Sink for Calls<'_> {
    fn thread(&mut self, thread: &Thread) {
        self.flush();
        self.named = true;
        if !self.chosen.has_thread(thread.id) {
            self.current = None;
            return;
        }
        let part = match self.chosen.from {
            None => Part::Inside,
            Some(_) => Part::Before,
        };
        let threads = &mut self.threads;
        let place = *self.by_id.entry(thread.id).or_insert_with(|| {
            // They are counts of all that was recorded.
            let thread = Thread {
                counts: None,
                totals: Vec::new(),
                early_calls: Vec::new(),
                ..thread.clone()
            };
            threads.push((
                thread,
                Open {
                    part,
                    ..Open::default()
                },
            ));
            threads.len() - 1
        });
        self.current = Some(place);
        self.sink.thread(&threads[place].0);
    }

    fn calls(&mut self, calls: &[Call]) {
        if !self.named {
            self.thread(&Thread::default());
        }
        if self.current.is_none() {
            return;
        }
        calls.iter().for_each(|call| self.call(call));
        self.flush();
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let part = match *mark {
            Mark::Cpu { time, cpu } => {
                let part = self.part(time);
                if let Some(open) = self.open() {
                    open.cpu = Some(cpu);
                }
                part
            }
            Mark::Custom { time, .. } | Mark::Typed { time, .. } | Mark::Break { time } => {
                self.part(time)
            }
            Mark::Note { time, kind, body } => self.note(time, kind, body),
            // The trace does not say of which functions these calls were. They are shown if the call around them is.
            Mark::ShortCalls { time, .. } => match (self.part(time), self.is_shown()) {
                (part, true) => part,
                (_, false) => Part::Before,
            },
            Mark::Argument { .. } => match self.open().is_some_and(|open| open.is_forwarded) {
                true => Part::Inside,
                false => Part::Before,
            },
            Mark::Wall { .. } | Mark::Lost { .. } | Mark::Threshold { .. } => {
                self.open().map_or(Part::Behind, |open| open.part)
            }
        };
        self.flush();
        if part == Part::Inside {
            self.sink.mark(mark);
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.sink.diagnostic(diagnostic);
    }
}
