//! The part of the recorder that may use all of std. It has the configuration, the start of the recorder, the
//! dumper thread, calibration, streams, and the calls of the API. The hot path must never call anything in this
//! room. A function that runs in a signal handler or in a child of `fork` says so.
//!
//! A file uses only floors below its own, and files to its left on the same floor:
//!
//! | floor | files |
//! | --- | --- |
//! | entrances | `control` (calls of the API), `start` (the loader's call) |
//! | coming up | `fork`, `dumper`, `install` |
//! | the dumper's work | `statistics`, `budget`, `commands` (of `fdr ctl`), `dead_rings`, `exit`, `thread_states` |
//! | other copies, panics | `answers`, `panics`, `guest` |
//! | dumps | `dumping`, `dump_signal`, `end_signals`, `triggers` |
//! | streams | `connection`, `stream`, `last_thread` |
//! | traces | `handover` (work for the dumper), `failures`, `trace_info`, `trace_paths` |
//! | sites | `names`, `sites` (the table), `units`, `waits` |
//! | state | `state` |
//! | clocks | `calibrate`, `skew`, `clock_faults` |
//! | settings | `address`, `config` (reads the variables of the environment), `identity`, `memory_limits` |

#[cfg(feature = "stream")]
mod address;
mod answers;
mod budget;
mod calibrate;
mod clock_faults;
mod commands;
mod config;
#[cfg(feature = "stream")]
mod connection;
pub(crate) mod control;
mod dead_rings;
mod dump_signal;
mod dumper;
mod dumping;
mod end_signals;
mod exit;
mod failures;
mod fork;
mod guest;
mod handover;
mod identity;
mod install;
mod last_thread;
mod memory_limits;
mod names;
#[cfg(not(feature = "stream"))]
mod no_stream;
mod panics;
mod sites;
mod skew;
pub(crate) mod start;
mod state;
mod statistics;
#[cfg(feature = "stream")]
mod stream;
mod thread_states;
mod trace_info;
mod trace_paths;
mod triggers;
pub(crate) mod units;
mod waits;

#[cfg(not(feature = "stream"))]
use no_stream::{self as address, self as connection, self as stream};
