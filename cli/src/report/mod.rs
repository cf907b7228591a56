//! Figures per function, from a stream of calls to a table, CSV or JSON.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`histogram`] | durations of one function: exact ends, percentiles to 0.8 % |
//! | [`stats`] | what is counted per function, found by id |
//! | [`stack`] | one thread's calls: what the call stack tells of each, by function |
//! | `by_state` | where the states of threads are known: the calls are cut where a state changes |
//! | [`open`] | which calls a thread was in when the trace was written |
//! | [`engine`] | the sink that feeds the stacks, one per worker, and their sum |
//! | [`events`], [`event_table`] | events and counters: counted, as rows, as tables |
//! | [`moments`] | the moments that `fdr ctl` named |
//! | [`names`], [`query`] | the names of functions; what is asked for |
//! | [`function_rows`] | functions: named, converted to nanoseconds, filtered and sorted |
//! | [`whole`] | the same from the totals of the whole run |
//! | [`rows`] | the whole report |
//! | `all` | one pass over a trace; the figures of all functions, for commands that compare with them |
//! | [`states`] | how long functions and threads ran, were preempted and waited |
//! | [`tasks`], `task_totals` | figures of tasks, which have a table of their own |
//! | [`waits`], [`wait_table`] | waits for locks, conditions and channels: counted, as rows, as a table |
//! | [`table`], [`table_style`], [`notes`], [`csv`], [`json`], [`json_field`] | the outputs |
//!
//! The outputs must never compute a figure, and the engine must never know of an output.

pub(crate) mod all;
mod by_state;
pub(crate) mod csv;
pub(crate) mod engine;
mod event_table;
pub(crate) mod events;
pub(crate) mod function_rows;
pub(crate) mod histogram;
pub(crate) mod json;
pub(crate) mod json_field;
pub(crate) mod moments;
pub(crate) mod names;
pub(crate) mod notes;
pub(crate) mod open;
pub(crate) mod query;
pub(crate) mod rows;
mod stack;
pub(crate) mod states;
mod stats;
pub(crate) mod table;
pub(crate) mod table_style;
mod task_totals;
pub(crate) mod tasks;
pub(crate) mod wait_table;
pub(crate) mod waits;
pub(crate) mod whole;

#[cfg(test)]
mod gap_tests;
#[cfg(test)]
mod packed_tests;
#[cfg(test)]
pub(crate) mod states_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod untimed_tests;
