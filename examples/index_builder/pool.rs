//! A pool of named threads that index and merge. Results come back in the order of the jobs, whichever thread did a
//! job.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use fdr::traced;

use crate::counts::{Counts, Function, count};
use crate::index::Index;
use crate::text::Generator;
use crate::tokens;

enum Work {
    Index(Range<u32>),
    Merge(Index, Index),
}

struct Job {
    place: usize,
    work: Work,
}

struct Done {
    place: usize,
    index: Index,
}

/// One thread of the pool.
struct Worker {
    jobs: Arc<Mutex<Receiver<Job>>>,
    done: Sender<Done>,
}

impl Worker {
    /// Works until the pool is finished.
    #[traced]
    fn run(&self) {
        count(Function::Run);
        while let Some(Job { place, work }) = self.next_job() {
            let index = match work {
                Work::Index(documents) => self.index_batch(documents),
                Work::Merge(index, later) => index.merge(later),
            };
            if self.done.send(Done { place, index }).is_err() {
                return;
            }
        }
    }

    /// Waits for a job; its time in a trace is the time without work.
    #[traced]
    fn next_job(&self) -> Option<Job> {
        count(Function::NextJob);
        self.jobs.lock().ok()?.recv().ok()
    }

    #[traced]
    fn index_batch(&self, documents: Range<u32>) -> Index {
        count(Function::IndexBatch);
        let mut index = Index::default();
        for number in documents {
            for word in tokens::words(&Generator::document(number)) {
                if !tokens::is_stop_word(word) {
                    index.add(tokens::stem(word), number);
                }
            }
        }
        index
    }
}

/// Threads that wait for work; [`Pool::finish`] ends them.
pub(crate) struct Pool {
    jobs: Sender<Job>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<Counts>>,
}

impl Pool {
    /// Starts `threads` threads named `indexer-0` and up.
    pub(crate) fn start(threads: usize) -> io::Result<Pool> {
        let (jobs, receiver) = mpsc::channel();
        let (sender, done) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let start = |number: usize| {
            let worker = Worker {
                jobs: Arc::clone(&receiver),
                done: sender.clone(),
            };
            thread::Builder::new()
                .name(format!("indexer-{number}"))
                .spawn(move || {
                    worker.run();
                    Counts::take()
                })
        };
        let threads = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok(Pool {
            jobs,
            done,
            threads,
        })
    }

    /// An index of each batch of documents.
    pub(crate) fn index(&self, batches: Vec<Range<u32>>) -> Vec<Index> {
        self.perform(batches.into_iter().map(Work::Index))
    }

    /// Merges neighbours: half as many indexes.
    pub(crate) fn merge(&self, parts: Vec<Index>) -> Vec<Index> {
        let mut parts = parts.into_iter();
        let mut works = Vec::new();
        let mut odd = None;
        while let Some(first) = parts.next() {
            match parts.next() {
                Some(second) => works.push(Work::Merge(first, second)),
                None => odd = Some(first),
            }
        }
        let mut merged = self.perform(works.into_iter());
        merged.extend(odd);
        merged
    }

    /// Hands the works out and waits for all; its own time in a trace is the wait.
    #[traced]
    fn perform(&self, works: impl Iterator<Item = Work>) -> Vec<Index> {
        count(Function::Perform);
        let mut jobs = 0;
        for (place, work) in works.enumerate() {
            self.jobs
                .send(Job { place, work })
                .expect("the threads live as long as the pool");
            jobs += 1;
        }
        let mut results: Vec<Done> = self.done.iter().take(jobs).collect();
        results.sort_unstable_by_key(|done| done.place);
        results.into_iter().map(|done| done.index).collect()
    }

    /// Ends the threads and returns their counts.
    pub(crate) fn finish(self) -> Vec<Counts> {
        drop(self.jobs);
        let counts = self.threads.into_iter().map(|thread| thread.join());
        counts
            .map(|counts| counts.expect("a thread of the pool panicked"))
            .collect()
    }
}
