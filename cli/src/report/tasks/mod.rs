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

#[cfg(test)]
mod tests;
