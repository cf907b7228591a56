//! A trace that the page shows: its source, its index, and the figures that are computed from both. Ticks go to the
//! page as distances from a tick near the trace's beginning, because a number of the page holds 53 bits.

use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;

use anyhow::{Context, bail};
use fdr_formats::calls::{Untimed, untimed};
use fdr_formats::model::State;
use fdr_formats::states::States;
use fdr_formats::{Sink, Source, ThreadId, Ticks, TraceInfo};
use foldhash::HashSet;

use super::call_key::CallKey;
use super::index::Index;
use super::picture::{self, Picture, Viewport};
use super::server::WaitingPeer;
use super::stretch::{self, Stretch};
use super::tasks::Tasks;
use crate::calls::document;
use crate::calls::slow_call::SlowCall;
use crate::report::all::ALL;
use crate::report::engine::Figures;
use crate::report::json;
use crate::report::rows::Report;
use crate::tree::folding::Folding;
use crate::tree::outline::{Limits, Outline};
use crate::tree::paths::Paths;
use crate::{input, memory, off_cpu, selection, trace, ui};

/// Bytes of an item of the index, with what lists keep in reserve.
const ITEM: u64 = 32;

/// The trace.
pub(super) struct ViewedTrace {
    /// The file; of a process, words for it.
    pub(super) path: PathBuf,
    pub(super) is_file: bool,
    /// Which file it was when it was opened.
    file: Option<FileId>,
    /// Remarks about the trace that the trace itself does not have.
    pub(super) notes: Vec<String>,
    pub(super) source: Arc<dyn Source>,
    pub(super) index: Arc<Index>,
    pub(super) states: Option<Arc<States>>,
    pub(super) untimed: Untimed,
    base: OnceLock<u64>,
    tasks: OnceLock<Tasks>,
    /// Held while the whole trace is read for an answer: two at a time would take twice the memory.
    heavy: Mutex<()>,
}

/// What tells a file from another one of the same name: its device, its number and its length. The time of its last
/// change does not, because a program writes into its ring as long as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId(u64, u64, u64);

impl FileId {
    fn of(path: &Path) -> Option<FileId> {
        let metadata = path.metadata().ok()?;
        Some(FileId(metadata.dev(), metadata.ino(), metadata.len()))
    }
}

/// A stretch of time that the user marked, in ns since the trace's first record, and threads.
#[derive(Clone, Debug, Default)]
pub(super) struct MarkedRange {
    pub(super) from_ns: Option<u64>,
    pub(super) to_ns: Option<u64>,
    /// Places in the list of threads; empty: all.
    pub(super) threads: Vec<usize>,
}

impl ViewedTrace {
    /// Opens a trace. Its index may take `bytes` bytes.
    ///
    /// # Errors
    /// If it can't be read.
    pub(super) fn open(path: &Path, bytes: u64) -> anyhow::Result<ViewedTrace> {
        Ok(ViewedTrace::new(path, Arc::from(input::open(path)?), bytes))
    }

    /// A trace that is open.
    pub(super) fn new(path: &Path, source: Arc<dyn Source>, bytes: u64) -> ViewedTrace {
        memory::grows("the index of the page");
        let items = usize::try_from(bytes / ITEM).unwrap_or(usize::MAX);
        ViewedTrace {
            path: path.to_owned(),
            is_file: true,
            file: FileId::of(path),
            notes: Vec::new(),
            index: Arc::new(Index::new(&*source, items)),
            states: off_cpu::states_of(source.info()),
            untimed: untimed(source.info()),
            source,
            base: OnceLock::new(),
            tasks: OnceLock::new(),
            heavy: Mutex::default(),
        }
    }

    /// Whether another file stands in its place, or the file was written anew. A file that is gone is not replaced.
    pub(super) fn is_replaced(&self) -> bool {
        let now = FileId::of(&self.path).filter(|_| self.is_file);
        now.is_some() && now != self.file
    }

    pub(super) fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    /// The tick from which the page counts.
    pub(super) fn base(&self) -> u64 {
        let first = || self.index.span().map(|(first, _)| first);
        if let Some(base) = self.base.get() {
            return *base;
        }
        while first().is_none() && !self.index.is_done() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let start = self.info().start.map(|start| start.0);
        *self.base.get_or_init(|| start.or_else(first).unwrap_or(0))
    }

    /// A tick as the page has it.
    pub(super) fn relative(&self, tick: u64) -> f64 {
        let base = self.base();
        match tick.checked_sub(base) {
            Some(later) => later as f64,
            None => -((base - tick) as f64),
        }
    }

    /// The tick that the page means.
    pub(super) fn tick(&self, relative: f64) -> u64 {
        // A conversion from a float keeps to the bounds; what is no number is 0.
        let sum = (relative as i128).saturating_add(i128::from(self.base()));
        u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
    }

    /// Waits until the whole trace was read.
    pub(super) fn wait(&self) {
        while !self.index.is_done() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its tasks. `None`: not all of the trace was read yet.
    pub(super) fn tasks(&self) -> Option<&Tasks> {
        let is_done = self.index.is_done();
        is_done.then(|| self.tasks.get_or_init(|| Tasks::from_index(&self.index)))
    }

    /// Draws a thread. `found`: functions that are looked for.
    pub(super) fn picture(
        &self,
        thread: usize,
        viewport: Viewport,
        found: &HashSet<u32>,
    ) -> anyhow::Result<Picture> {
        let (source, index) = (&*self.source, &*self.index);
        let states = self.states.as_ref();
        let drawn = picture::of_thread(
            source,
            index,
            states,
            &self.untimed,
            thread,
            viewport,
            found,
        );
        drawn.map_err(|error| trace::about(&self.path, error))
    }

    /// Draws threads, by all cores: a picture of short calls reads the trace again.
    pub(super) fn pictures(
        &self,
        threads: &[usize],
        viewport: Viewport,
        found: &HashSet<u32>,
    ) -> Vec<anyhow::Result<Picture>> {
        let next = AtomicUsize::new(0);
        let draw = || {
            let turns = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            let places = turns.map_while(|place| Some((place, *threads.get(place)?)));
            let drawn =
                places.map(|(place, thread)| (place, self.picture(thread, viewport, found)));
            drawn.collect::<Vec<_>>()
        };
        let mut drawn = std::thread::scope(|scope| {
            let more = ui::jobs().min(threads.len()).saturating_sub(1);
            let others: Vec<_> = (0..more).map(|_| scope.spawn(draw)).collect();
            let mut drawn = draw();
            for other in others {
                drawn.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            drawn
        });
        drawn.sort_unstable_by_key(|(place, _)| *place);
        drawn.into_iter().map(|(_, picture)| picture).collect()
    }

    /// First and last tick of what is marked, as `--since` and `--until` take them; `None`: the trace's own.
    pub(super) fn ticks_of(&self, marked: &MarkedRange) -> (Option<Ticks>, Option<Ticks>) {
        let Some((first, last)) = self.index.span() else {
            return (None, None);
        };
        let clock = &self.info().clock;
        let (start, end) = (clock.nanos(Ticks(first)).0, clock.nanos(Ticks(last)).0);
        let at = |ns: u64| i128::from(start) + i128::from(ns);
        let from = marked.from_ns.map(at).filter(|&from| from > start.into());
        let to = marked.to_ns.map(at).filter(|&to| to < end.into());
        (
            from.map(|from| selection::first_tick(from, clock)),
            to.map(|to| Ticks(selection::first_tick(to + 1, clock).0.saturating_sub(1))),
        )
    }

    /// The part of the trace that is marked, as a source.
    pub(super) fn part(&self, marked: &MarkedRange) -> Box<dyn Source> {
        let (from, to) = self.ticks_of(marked);
        let threads = (!marked.threads.is_empty()).then(|| self.ids(&marked.threads));
        let stretch = Stretch {
            source: self.source.clone(),
            index: self.index.clone(),
            from: from.map_or(0, |from| from.0),
            to: to.map_or(u64::MAX, |to| to.0),
        };
        selection::part(Box::new(stretch), threads, (from, to))
    }

    /// Reads a stretch of one thread.
    ///
    /// # Errors
    /// If the file can't be read.
    pub(super) fn read(
        &self,
        thread: usize,
        stretch: (u64, u64),
        sink: &mut dyn Sink,
    ) -> Result<(), fdr_formats::Error> {
        let (source, index) = (&*self.source, &*self.index);
        if index.can_read_again(thread) {
            return stretch::read(source, index, thread, stretch, sink);
        }
        // Other threads of its lanes are left out.
        let alone = self.part(&MarkedRange {
            threads: vec![thread],
            ..MarkedRange::default()
        });
        fdr_formats::source::drive(&*alone, sink, &|_| {})
    }

    /// The slow calls of what is marked: the document of `fdr slow --json`.
    ///
    /// # Errors
    /// If the trace can't be read.
    pub(super) fn slow(
        &self,
        marked: &MarkedRange,
        asker: WaitingPeer<'_>,
    ) -> anyhow::Result<Vec<u8>> {
        self.wait();
        let _alone = self.alone(asker)?;
        let is_whole = marked.threads.is_empty() && self.ticks_of(marked) == (None, None);
        document::of_source(&self.path, &*self.part(marked), is_whole)
    }

    /// Why a call took so long, in the same form.
    ///
    /// # Errors
    /// If the trace can't be read.
    pub(super) fn why(&self, meant: CallKey, asker: WaitingPeer<'_>) -> anyhow::Result<Vec<u8>> {
        self.wait();
        let _alone = self.alone(asker)?;
        let thread = self.info().threads.get(meant.thread);
        let call = SlowCall {
            total: meant.end.saturating_sub(meant.start),
            function: fdr_formats::FunctionId(meant.function),
            thread: thread.map(|thread| thread.id).unwrap_or_default(),
            start: Ticks(meant.start),
            end: Ticks(meant.end),
            is_open: meant.is_open,
        };
        document::of_call(&self.path, &*self.source, call)
    }

    /// The paths of the calls of what is marked.
    ///
    /// # Errors
    /// If the trace can't be read.
    pub(super) fn paths(
        &self,
        marked: &MarkedRange,
        by: Option<State>,
        asker: WaitingPeer<'_>,
    ) -> anyhow::Result<Paths> {
        self.wait();
        let _alone = self.alone(asker)?;
        let ends_early = self.ticks_of(marked).1.is_some();
        let folding = Folding::of_source(&self.path, self.part(marked), by, ends_early)?;
        let mut paths = Paths::default();
        folding
            .add_to(&mut paths, 1)
            .with_context(|| ui::path(&self.path))?;
        paths.settle([1, 1]);
        Ok(paths)
    }

    /// The call tree of what is marked: the document of `fdr report --tree --json`.
    ///
    /// # Errors
    /// If the trace can't be read.
    pub(super) fn outline(
        &self,
        marked: &MarkedRange,
        limits: Limits,
        asker: WaitingPeer<'_>,
    ) -> anyhow::Result<Vec<u8>> {
        self.wait();
        let _alone = self.alone(asker)?;
        let ends_early = self.ticks_of(marked).1.is_some();
        let folding = Folding::of_source(&self.path, self.part(marked), None, ends_early)?;
        let mut text = Vec::new();
        Outline::new(folding.rows(), limits).write_json(
            &mut text,
            &self.path.to_string_lossy(),
            folding.info(),
        )?;
        Ok(text)
    }

    fn ids(&self, threads: &[usize]) -> Vec<ThreadId> {
        let known = &self.info().threads;
        let threads = threads.iter().filter_map(|&nth| known.get(nth));
        threads.map(|thread| thread.id).collect()
    }

    /// One heavy answer at a time.
    ///
    /// # Errors
    /// If the peer that asked has gone before its turn.
    pub(super) fn alone(&self, asker: WaitingPeer<'_>) -> anyhow::Result<MutexGuard<'_, ()>> {
        loop {
            let guard = match self.heavy.try_lock() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            if asker.is_gone() {
                bail!("nobody waits for this answer any more");
            }
            match guard {
                Some(guard) => return Ok(guard),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// The figures of what is marked: the document of `fdr report --json`.
    ///
    /// # Errors
    /// If the trace can't be read.
    pub(super) fn report(
        &self,
        marked: &MarkedRange,
        asker: WaitingPeer<'_>,
    ) -> anyhow::Result<Vec<u8>> {
        self.wait();
        let _alone = self.alone(asker)?;
        let source = self.part(marked);
        let figures = Figures::read(&self.path, &*source, false)?;
        let report = Report::new(source.info(), figures, &ALL);
        let report = report.with_context(|| ui::path(&self.path))?;
        let mut text = Vec::new();
        json::write(
            &mut text,
            &self.path.to_string_lossy(),
            source.info(),
            &report,
        )?;
        Ok(text)
    }
}
