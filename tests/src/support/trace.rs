//! A trace as the reading library gives it, in a shape that tests can compare.

use std::collections::BTreeMap;
use std::path::Path;

use fdr_formats::model::Counts;
use fdr_formats::notes::{Field, FieldValue, Note, NoteKind};
use fdr_formats::source::{Source, drive};
use fdr_formats::{Call, Diagnostic, Edge, Mark, Sink, Thread, TraceInfo, registry};

use super::program::verify;
use super::script::FUNCTIONS;

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
}

#[derive(Default)]
struct Collect {
    threads: Vec<Lane>,
    diagnostics: Vec<Diagnostic>,
}

impl Sink for Collect {
    fn thread(&mut self, thread: &Thread) {
        if self
            .threads
            .last()
            .is_none_or(|last| last.thread.id != thread.id)
        {
            self.threads.push(Lane::default());
        }
        if let Some(lane) = self.threads.last_mut() {
            lane.thread = thread.clone();
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        let lane = self.threads.last_mut().expect("a thread comes first");
        for call in calls {
            let exit = u32::from(call.edge != Edge::Entry);
            if call.synthetic {
                lane.synthetic[exit as usize] += 1;
            } else {
                lane.edges.push(call.function.0 << 1 | exit);
                lane.times.push(call.time.0);
            }
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if let Mark::Note { time, kind, body } = mark {
            let lane = self.threads.last_mut().expect("a thread comes first");
            let note = (lane.edges.len(), time.0, *kind, body.to_vec());
            lane.notes.push(note);
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
        let name = path.display();
        let source: Box<dyn Source> =
            registry::open_path(path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut collected = Collect::default();
        drive(&*source, &mut collected, &|_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(source.diagnostics(), [], "{name}");
        assert_eq!(collected.diagnostics, [], "{name}");
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
    pub fn scripted(&self, lane: &Lane, program: &str) -> Vec<u8> {
        let mut numbers = BTreeMap::new();
        for (number, function) in FUNCTIONS.iter().enumerate() {
            let name = format!("{program}::{function}");
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
        assert!(self.times.is_sorted(), "{name}: its times go back");
        counts
    }
}
