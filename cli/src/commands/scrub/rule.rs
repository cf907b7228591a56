//! The replacements for names and numbers in a scrubbed trace. Only this file decides which data
//! stays.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fdr_formats::filter::Filter;
use fdr_formats::identity::Identity;
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::{Function, Mark, Thread, ThreadId, TraceInfo};

use crate::trace;

/// What the options let stay in the trace.
#[derive(Clone, Debug, Default)]
pub(super) struct KeepOptions {
    pub(super) names: Vec<Filter>,
    pub(super) arguments: bool,
    pub(super) events: bool,
    pub(super) threads: bool,
}

/// The new names and numbers so far, and counts of what was left out.
#[derive(Default)]
pub(super) struct Rule {
    pub(super) keep: KeepOptions,
    /// New numbers.
    threads: Mutex<HashMap<ThreadId, ThreadId>>,
    objects: Mutex<HashMap<u64, u64>>,
    pub(super) kept_names: AtomicU64,
    pub(super) arguments: AtomicU64,
    pub(super) events: AtomicU64,
    /// New and old names.
    pub(super) replaced: Vec<(String, String)>,
}

impl Rule {
    pub(super) fn new(keep: KeepOptions) -> Rule {
        Rule {
            keep,
            ..Rule::default()
        }
    }

    /// The facts of a trace.
    pub(super) fn info(&mut self, info: &TraceInfo) -> TraceInfo {
        let mut schedule = info.schedule.clone();
        let threads: Vec<Thread> = info
            .threads
            .iter()
            .map(|thread| self.thread(thread))
            .collect();
        for (old, new) in info.threads.iter().zip(&threads) {
            if old.name != new.name {
                self.replaced.push((new.name.clone(), old.name.clone()));
            }
        }
        // Samples have addresses of the program, and modules have the paths of its files.
        schedule.samples.clear();
        schedule.modules.clear();
        for switch in &mut schedule.switches {
            // Number 0 stands for all threads.
            if switch.thread.0 != 0 {
                switch.thread = self.thread_id(switch.thread);
            }
        }
        for account in &mut schedule.accounts {
            account.thread = self.thread_id(account.thread);
        }
        let mut moments = info.moments.clone();
        for moment in &mut moments {
            if !self.keep.events {
                moment.name = format!("m{}", moment.number);
            }
        }
        let functions = info.functions.iter();
        let functions = functions
            .enumerate()
            .map(|(at, function)| self.function(at, function));
        TraceInfo {
            functions: functions.collect(),
            threads,
            program: String::new(),
            process: info.process.map(|_| 1),
            identity: Identity::default(),
            reason: trace::word_of_reason(info).to_owned(),
            moments,
            schedule,
            ..info.clone()
        }
    }

    fn function(&mut self, at: usize, function: &Function) -> Function {
        let is_kept = self
            .keep
            .names
            .iter()
            .any(|filter| filter.matches(&function.name));
        if is_kept {
            self.kept_names.fetch_add(1, Ordering::Relaxed);
            return function.clone();
        }
        let letter = match function.kind {
            FunctionKind::Calls => 'f',
            FunctionKind::Event => 'e',
            FunctionKind::Name => 'n',
        };
        let name = format!("{letter}{:04}", at + 1);
        self.replaced.push((name.clone(), function.name.clone()));
        Function {
            name,
            file: String::new(),
            line: 0,
            ..function.clone()
        }
    }

    /// A thread. Its counts and totals say no name.
    pub(super) fn thread(&self, thread: &Thread) -> Thread {
        let id = self.thread_id(thread.id);
        Thread {
            id,
            process: thread.process.map(|_| 1),
            name: match self.keep.threads {
                true => thread.name.clone(),
                false => format!("t{id}"),
            },
            ..thread.clone()
        }
    }

    /// The new number of a thread: they are counted from 1.
    fn thread_id(&self, id: ThreadId) -> ThreadId {
        let mut threads = self.threads.lock().unwrap_or_else(|held| held.into_inner());
        let next = threads.len() as u64 + 1;
        *threads.entry(id).or_insert(ThreadId(next))
    }

    /// The number of something that threads wait for, instead of its address.
    fn object(&self, object: u64) -> u64 {
        if object == 0 {
            return 0;
        }
        let mut objects = self.objects.lock().unwrap_or_else(|held| held.into_inner());
        let next = objects.len() as u64 + 1;
        *objects.entry(object).or_insert(next)
    }

    /// Gives a mark on, if it stays.
    pub(super) fn mark(&self, mark: &Mark<'_>, give: &mut dyn FnMut(&Mark<'_>)) {
        let (stays, count) = match *mark {
            Mark::Argument { .. } => (self.keep.arguments, &self.arguments),
            Mark::Custom { .. } | Mark::Typed { .. } => (self.keep.events, &self.events),
            Mark::Note {
                kind: NoteKind::Arguments,
                ..
            } => (self.keep.arguments, &self.arguments),
            Mark::Note {
                kind: NoteKind::Event,
                ..
            } => (self.keep.events, &self.events),
            Mark::Note { time, kind, body } => {
                // A note that can't be decoded is left out, because it may contain anything.
                let body = Note::decode(kind, body).and_then(|note| self.note(note).encode());
                match body {
                    Some(body) => {
                        let body = &body[..];
                        return give(&Mark::Note { time, kind, body });
                    }
                    None => (false, &self.events),
                }
            }
            Mark::Cpu { .. }
            | Mark::Wall { .. }
            | Mark::Lost { .. }
            | Mark::Break { .. }
            | Mark::ShortCalls { .. }
            | Mark::Threshold { .. } => return give(mark),
        };
        match stays {
            true => give(mark),
            false => drop(count.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// A task, or what a thread waits for.
    fn note<'a>(&self, note: Note<'a>) -> Note<'a> {
        match note {
            Note::ThreadState {
                object,
                holder,
                name,
                state,
                reason,
                function,
                waited,
            } => Note::ThreadState {
                object: self.object(object),
                holder: match holder {
                    0 => 0,
                    holder => self.thread_id(ThreadId(holder)).0,
                },
                name,
                state,
                reason,
                function,
                waited,
            },
            other => other,
        }
    }
}
