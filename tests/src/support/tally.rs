//! Counts of a trace of any format: calls of each function, and edges and losses of each thread. The order of the
//! threads makes no difference.

use std::collections::BTreeMap;
use std::path::Path;

use fdr_formats::model::Counts;
use fdr_formats::source::drive;
use fdr_formats::{
    Call, Diagnostic, Edge, FunctionId, Mark, Sink, Source, Thread, TraceInfo, registry,
};

/// A trace, counted.
#[derive(Debug, Default)]
pub struct Tally {
    /// What it says of itself.
    pub info: TraceInfo,
    /// Its threads by number, those without a record too.
    pub threads: BTreeMap<u64, ThreadTally>,
    entries: BTreeMap<FunctionId, u64>,
    diagnostics: Vec<Diagnostic>,
    now: u64,
}

/// One thread of it.
#[derive(Clone, Debug, Default)]
pub struct ThreadTally {
    /// Its name.
    pub name: String,
    /// What the trace says of its records.
    pub counts: Option<Counts>,
    /// Measured entries and exits.
    pub measured: [u64; 2],
    /// Entries and exits that were not measured.
    pub synthetic: [u64; 2],
    /// Records that the trace counts as missing.
    pub lost: u64,
}

impl Sink for Tally {
    fn thread(&mut self, thread: &Thread) {
        self.now = thread.id.0;
        let known = self.threads.entry(self.now).or_default();
        known.name.clone_from(&thread.name);
        known.counts = thread.counts.or(known.counts);
    }

    fn calls(&mut self, calls: &[Call]) {
        let thread = self
            .threads
            .get_mut(&self.now)
            .expect("a thread comes first");
        for call in calls {
            let exit = usize::from(call.edge != Edge::Entry);
            if call.synthetic {
                thread.synthetic[exit] += 1;
            } else {
                thread.measured[exit] += 1;
            }
            if exit == 0 && !call.synthetic {
                *self.entries.entry(call.function).or_default() += 1;
            }
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if let Mark::Lost { records } = mark {
            let thread = self
                .threads
                .get_mut(&self.now)
                .expect("a thread comes first");
            thread.lost += records;
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}

impl Tally {
    /// Reads a file or folder.
    ///
    /// # Panics
    ///
    /// If it is no trace, or anything is wrong in it.
    #[must_use]
    pub fn read(path: &Path) -> Tally {
        let tally = Tally::read_cut(path);
        assert_eq!(tally.diagnostics, [], "{}", path.display());
        tally
    }

    /// Reads a trace that may break off.
    ///
    /// # Panics
    ///
    /// If it is no trace.
    #[must_use]
    pub fn read_cut(path: &Path) -> Tally {
        let name = path.display();
        let source: Box<dyn Source> =
            registry::open_path(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut tally = Tally::default();
        drive(&*source, &mut tally, &|_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
        tally.diagnostics.extend_from_slice(source.diagnostics());
        tally.info = source.info().clone();
        tally
    }

    /// How often each function was entered, over all threads.
    ///
    /// # Panics
    ///
    /// If one of them has no name.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<String, u64> {
        let named = |(id, count): (&FunctionId, &u64)| {
            let function = self.info.function(*id);
            let function = function.unwrap_or_else(|| panic!("function {id} has no name"));
            (function.name.clone(), *count)
        };
        self.entries.iter().map(named).collect()
    }

    /// Measured entries and exits, over all threads.
    #[must_use]
    pub fn records(&self) -> u64 {
        let threads = self.threads.values();
        threads
            .map(|thread| thread.measured.iter().sum::<u64>())
            .sum()
    }

    /// Records that the trace counts as missing, over all threads.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.threads.values().map(|thread| thread.lost).sum()
    }
}
