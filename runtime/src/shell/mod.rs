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
//! | traces | `handover` (work for the dumper), `marks` (named moments), `failures`, `trace_info`, `trace_paths` |
//! | sites | `names`, `sites` (the table), `units`, `waits` |
//! | state | `state` |
//! | clocks | `calibrate`, `skew`, `clock_faults` |
//! | settings | `cargo` (what it does with the process), `address`, `config` (reads the variables of the environment), `identity`, `memory_limits` |
//!
//! The state and the table of sites are handed down as parameters, the table as a handle that is not locked. They are
//! read from the process's globals only where a call comes from outside, by `state::state` and `sites::table`:
//!
//! | entry points | who calls them |
//! | --- | --- |
//! | `start::at_load` | the loader |
//! | `control::enable`, `control::disable`, `control::is_enabled` | the program by the API, or a guest |
//! | `control::set_filter`, `control::statistics` | the same |
//! | `control::dump`, `control::dump_unnamed`, `control::mark` | the same |
//! | `control::attach_c`, `guest::adopt` | another copy of the recorder |
//! | `units::register`, `units::is_up` | the crate `fdr-tracing`, by `dynamic` |
//! | `waits::id_of` | a thread that records and is about to wait |
//! | `panics::run` | std, in a panic |
//! | `end_signals::on_signal` | the kernel, as a signal's handler |
//! | `fork::before`, `fork::in_parent`, `fork::in_child` | the C library, around a fork |
//! | `exit::at_exit` | the C library, in `exit` |
//! | `install::install` | no caller outside: whether there is a state is certain only under the lock of the start |
//!
//! The threads of the dumper and of a stream get both from `install`. `cargo xtask tidy` refuses any other reader.

#[cfg(feature = "stream")]
mod address;
mod answers;
mod budget;
mod calibrate;
mod cargo;
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
mod marks;
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
