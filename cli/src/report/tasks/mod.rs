//! Figures of tasks: from their notes, and from what the recorder counted of them (`fdr_formats::tasks`).
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`polls`] | the polls of chosen tasks |
//! | [`task_table`] | the tasks of a trace, each as its last note has it |
//! | [`rows`] | figures per function, in nanoseconds, filtered and sorted |
//! | [`show`] | the table and the JSON |

pub(crate) mod polls;
pub(crate) mod rows;
pub(crate) mod show;
pub(crate) mod task_table;

/// What the time of a task lacks.
pub(crate) const NOT_IN_TIME: &str = "a task's time is from its first poll to its end: the wait before that poll, since \
    its making or spawn, is not in it, and neither is what comes behind its end, such as the body of a response";

#[cfg(test)]
mod tests;
