//! What a thread says of tasks: the last note of each, and the calls that are their polls. Memory is bounded.

use std::collections::HashMap;

use super::pyramid::Item;
use crate::report::tasks::task_table::{self, Task};

/// Polls that a page keeps of all threads together, and those that it keeps of a thread in any case.
const MAX_POLLS: usize = 1_000_000;
const MIN_POLLS: usize = 10_000;
/// Tasks of a thread.
const MAX_TASKS: usize = 200_000;

/// A poll, as the call that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Poll {
    pub(super) task: u64,
    /// From 1.
    pub(super) number: u64,
    pub(super) depth: usize,
    pub(super) item: Item,
}

/// The tasks and polls in a thread's notes.
#[derive(Debug)]
pub(super) struct ThreadTasks {
    pub(super) tasks: HashMap<u64, Task>,
    pub(super) polls: Vec<Poll>,
    most: usize,
    /// Tasks and polls that were too many to keep.
    pub(super) more: u64,
}

impl ThreadTasks {
    /// The tasks of one thread, in a trace of `threads` threads, which share the memory.
    pub(super) fn new(threads: usize) -> ThreadTasks {
        ThreadTasks {
            tasks: HashMap::new(),
            polls: Vec::new(),
            most: (MAX_POLLS / threads.max(1)).max(MIN_POLLS),
            more: 0,
        }
    }

    pub(super) fn note(&mut self, id: u64, task: Task) {
        if self.tasks.len() >= MAX_TASKS && !self.tasks.contains_key(&id) {
            self.more += 1;
            return;
        }
        task_table::add(&mut self.tasks, id, task);
    }

    /// The call of the note before has ended.
    pub(super) fn poll(&mut self, poll: Poll) {
        match self.polls.len() < self.most {
            true => self.polls.push(poll),
            false => self.more += 1,
        }
    }
}
