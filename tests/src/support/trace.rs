//! A trace as the reading library gives it, in a shape that tests can compare.

use std::collections::BTreeMap;
use std::path::Path;

use fdr_formats::model::Counts;
use fdr_formats::notes::{Field, FieldValue, Note, NoteKind};
use fdr_formats::source::drive;
use fdr_formats::{
    Call, Diagnostic, Edge, FunctionId, Mark, Sink, Source, Thread, Ticks, TraceInfo, registry,
};

use super::script::FUNCTIONS;
use super::tool::verify;

/// All of a trace.
#[derive(Debug)]
pub struct Trace {
    /// What it says of itself.
    pub info: TraceInfo,
    /// Its threads, in the order of the file.
    pub threads: Vec<Lane>,
}

/// One thread of a trace.
#[derive(Debug, Default)]
pub struct Lane {
    /// As the trace names and counts it.
    pub thread: Thread,
    /// Measured edges in order: function id << 1, and 1 more for an exit.
    pub edges: Vec<u32>,
    /// The times of `edges`, ticks.
    pub times: Vec<u64>,
    /// Entries and exits that the writer added.
    pub synthetic: [u64; 2],
    /// Its notes: how many measured edges come before, the time, the kind, and the body.
    pub notes: Vec<(usize, u64, NoteKind, Vec<u8>)>,
    /// How many calls left no records, each time before the edge of that place.
    pub short: Vec<(usize, u64)>,
    /// How often it changed its CPU, the beginnings of chunks among it.
    pub cpus: u64,
    /// Records that the trace counts as missing between others.
    pub lost: u64,
    /// The most calls that were open all the time.
    pub early: u64,
    /// Calls that have no end.
    pub open: Vec<FunctionId>,
    /// Edges that go back in time, or end another call than the last that is open.
    pub misplaced: u64,
    last: Ticks,
}

#[derive(Default)]
struct Collect {
    threads: Vec<Lane>,
    /// The place of the thread whose data come now.
    now: usize,
    diagnostics: Vec<Diagnostic>,
}

impl Collect {
    fn lane(&mut self) -> &mut Lane {
        self.threads
            .get_mut(self.now)
            .expect("a thread comes first")
    }
}

impl Sink for Collect {
    fn thread(&mut self, thread: &Thread) {
        let mut places = self.threads.iter();
        let known = places.position(|lane| lane.thread.id == thread.id);
        self.now = known.unwrap_or(self.threads.len());
        if known.is_none() {
            self.threads.push(Lane::default());
        }
        let lane = self.lane();
        lane.early = lane.early.max(thread.early_calls.len() as u64);
        let counts = thread.counts.or(lane.thread.counts);
        lane.thread = Thread {
            counts,
            ..thread.clone()
        };
    }

    fn calls(&mut self, calls: &[Call]) {
        let lane = self.lane();
        for call in calls {
            lane.misplaced += u64::from(call.time < lane.last);
            lane.last = call.time;
            let exit = u32::from(call.edge != Edge::Entry);
            if exit == 0 {
                lane.open.push(call.function);
            } else {
                let is_last = lane.open.pop() == Some(call.function);
                lane.misplaced += u64::from(!is_last);
            }
            if call.synthetic {
                lane.synthetic[exit as usize] += 1;
            } else {
                lane.edges.push(call.function.0 << 1 | exit);
                lane.times.push(call.time.0);
            }
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let lane = self.lane();
        let place = lane.edges.len();
        match mark {
            Mark::Note { time, kind, body } => {
                lane.notes.push((place, time.0, *kind, body.to_vec()));
            }
            Mark::ShortCalls { calls, .. } => lane.short.push((place, *calls)),
            Mark::Cpu { .. } => lane.cpus += 1,
            Mark::Lost { records } => lane.lost += records,
            _ => {}
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}

impl Trace {
    /// Reads a file.
    ///
    /// # Panics
    ///
    /// If it is no trace, or anything is wrong in it.
    #[must_use]
    pub fn read(path: &Path) -> Trace {
        Trace::read_except(path, |_| false)
    }

    /// Reads a trace that may break off.
    ///
    /// # Panics
    ///
    /// If it is no trace.
    #[must_use]
    pub fn read_cut(path: &Path) -> Trace {
        Trace::read_except(path, |_| true)
    }

    /// Reads a file of which the reader may say what is expected.
    ///
    /// # Panics
    ///
    /// If it is no trace, or anything else is wrong in it.
    #[must_use]
    pub fn read_except(path: &Path, is_expected: impl Fn(&Diagnostic) -> bool) -> Trace {
        let name = path.display();
        let source: Box<dyn Source> =
            registry::open_path(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut collected = Collect::default();
        drive(&*source, &mut collected, &|_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
        let diagnostics = source.diagnostics().iter().chain(&collected.diagnostics);
        let wrong: Vec<&Diagnostic> = diagnostics.filter(|wrong| !is_expected(wrong)).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
        Trace {
            info: source.info().clone(),
            threads: collected.threads,
        }
    }

    /// Reads a file that `fdr verify` finds to be whole, too.
    ///
    /// # Panics
    ///
    /// If it is not, or as [`Trace::read`].
    #[must_use]
    pub fn verified(path: &Path) -> Trace {
        verify(path);
        Trace::read(path)
    }

    /// The thread of that name.
    ///
    /// # Panics
    ///
    /// If there is none, or several.
    #[must_use]
    pub fn thread(&self, name: &str) -> &Lane {
        let named = |lane: &&Lane| lane.thread.name == name;
        let lanes: Vec<&Lane> = self.threads.iter().filter(named).collect();
        assert_eq!(lanes.len(), 1, "threads {name:?} in {:?}", self.names());
        lanes[0]
    }

    /// The names of its threads.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let names = self.threads.iter().map(|lane| lane.thread.name.as_str());
        names.collect()
    }

    /// How often each function was entered, over all threads, without those never entered.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<String, u64> {
        let mut calls = BTreeMap::new();
        for lane in &self.threads {
            for edge in lane.edges.iter().filter(|edge| **edge & 1 == 0) {
                *calls.entry(self.name_of(*edge)).or_default() += 1;
            }
        }
        calls
    }

    /// Measured entries and exits, over all threads.
    #[must_use]
    pub fn records(&self) -> u64 {
        let edges = self.threads.iter().map(|lane| lane.edges.len() as u64);
        edges.sum()
    }

    /// Records that it counts as missing between others, over all threads.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.threads.iter().map(|lane| lane.lost).sum()
    }

    /// Every record that it knows of, wherever it went.
    ///
    /// # Panics
    ///
    /// Like [`Lane::checked_counts`].
    #[must_use]
    pub fn asked_for(&self) -> u64 {
        let lanes = self.threads.iter();
        let recorded: u64 = lanes.map(|lane| lane.checked_counts().recorded).sum();
        let missing = self.info.missing;
        recorded + missing.overwritten + missing.dropped
    }

    /// The name of an edge's function.
    ///
    /// # Panics
    ///
    /// If the trace has none for it.
    #[must_use]
    pub fn name_of(&self, edge: u32) -> String {
        let function = self.info.function(fdr_formats::FunctionId(edge >> 1));
        let function = function.unwrap_or_else(|| panic!("function {} has no name", edge >> 1));
        function.name.clone()
    }

    /// The thread's events in words: `name form level key=value …`.
    ///
    /// # Panics
    ///
    /// If a note is damaged, or a name is not in the table.
    #[must_use]
    pub fn events(&self, lane: &Lane) -> Vec<String> {
        let notes = lane.notes.iter();
        let events = notes.filter(|(_, _, kind, _)| *kind == NoteKind::Event);
        let in_words = |(_, _, kind, body): &(usize, u64, NoteKind, Vec<u8>)| {
            let note = Note::decode(*kind, body).expect("a note");
            let Note::Event {
                name,
                form,
                level,
                fields,
                ..
            } = note
            else {
                panic!("{note:?}");
            };
            let name = self.name_of(name << 1);
            let fields = fields.iter().map(|field| self.field(field));
            format!("{name} {form} {level}{}", fields.collect::<String>())
        };
        events.map(in_words).collect()
    }

    /// A field in words, with a blank before it.
    #[must_use]
    pub fn field(&self, field: &Field<'_>) -> String {
        let name = match field.name {
            0 => String::new(),
            name => self.name_of(name << 1),
        };
        match field.value {
            FieldValue::Text(text, whole) if text.len() as u64 == whole => {
                format!(" {name}={:?}", String::from_utf8_lossy(text))
            }
            FieldValue::Text(text, whole) => format!(" {name}=[{} of {whole}]", text.len()),
            FieldValue::Unsigned(number) => format!(" {name}={number}"),
            other => format!(" {name}={other:?}"),
        }
    }

    /// The thread's edges in the words of [`super::script`]; `program` is the functions' crate.
    ///
    /// # Panics
    ///
    /// If there is any other function among them.
    #[must_use]
    pub fn scripted(&self, lane: &Lane) -> Vec<u8> {
        let mut numbers = BTreeMap::new();
        for (number, function) in FUNCTIONS.iter().enumerate() {
            let name = format!("programs::exact::{function}");
            let known = self.info.functions.iter().find(|known| known.name == name);
            let known = known.unwrap_or_else(|| panic!("no {name}"));
            numbers.insert(known.id.0, 2 * number as u8);
        }
        let edges = lane.edges.iter();
        edges
            .map(|edge| numbers[&(edge >> 1)] + (edge & 1) as u8)
            .collect()
    }
}

impl Lane {
    /// The recorder's own counts, which must agree with what is there.
    ///
    /// # Panics
    ///
    /// If they do not.
    #[must_use]
    pub fn checked_counts(&self) -> Counts {
        let name = &self.thread.name;
        let counts = self.thread.counts.expect("a dump has counts");
        let sum = counts.readable + counts.overwritten + counts.dropped + counts.summarised;
        assert_eq!(counts.recorded, sum, "{name}: {counts:?}");
        assert_eq!(
            counts.readable,
            self.edges.len() as u64,
            "{name}: {counts:?}"
        );
        let synthetic = [counts.synthetic_entries, counts.synthetic_exits];
        assert_eq!(synthetic, self.synthetic, "{name}: {counts:?}");
        assert_eq!(self.misplaced, 0, "{name}: edges are out of order");
        counts
    }
}
