//! Slow calls, and why each was slow: found by `fdr slow`, and shown by the page of `fdr view`, too.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`query`] | which slow calls are asked for |
//! | [`slow_call`], [`usual`] | a call that took long; what is usual for its function |
//! | [`slowest`], `noise`, [`idle`] | the first pass: the slowest calls; those that the system explains; waits for work |
//! | [`tree`], [`arguments`], [`events`] | the calls inside, and the program's notes in them |
//! | [`overlaps`], [`states`], `samples` | what other threads did, what the thread did, and where it was |
//! | [`cause`], [`same_cause`] | where the excess is; calls that have one cause |
//! | `cpu_time` | how much of the CPU time is in traced calls |
//! | [`finding`], [`findings`] | all of it for a call, and for a trace |
//! | [`words`], [`json`], [`document`] | the outputs |

pub(crate) mod arguments;
pub(crate) mod cause;
mod cpu_time;
pub(crate) mod document;
pub(crate) mod events;
pub(crate) mod finding;
pub(crate) mod findings;
pub(crate) mod idle;
pub(crate) mod json;
pub(crate) mod last_panic;
mod noise;
pub(crate) mod overlaps;
pub(crate) mod query;
pub(crate) mod same_cause;
pub(crate) mod samples;
pub(crate) mod slow_call;
pub(crate) mod slowest;
pub(crate) mod states;
pub(crate) mod tree;
pub(crate) mod usual;
pub(crate) mod words;
