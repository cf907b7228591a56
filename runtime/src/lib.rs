//! A flight data recorder for Rust programs.
//!
//! Put [`#[traced]`](traced) on functions and run the program with `FDR=1`. The last calls of each thread are kept in a
//! ring. The rings become a trace file when the program ends, when `USR2` comes, or when [`dump`] is called. Nothing
//! has to be called in `main`.
//!
//! ```
//! use fdr::traced;
//!
//! struct Index;
//!
//! impl Index {
//!     #[traced] // recorded as my_app::Index::insert
//!     fn insert(&mut self, word: &str) {
//!         let _ = word.len();
//!     }
//! }
//!
//! // Instead of the environment:
//! fdr::Config::new().filter("*").buffer(1 << 20).enable()?;
//! Index.insert("word");
//! for thread in fdr::statistics().threads {
//!     assert!(thread.recorded >= 2); // an entry and an exit
//! }
//! # Ok::<(), fdr::Error>(())
//! ```
//!
//! [`dump_to`] writes a trace to any writer, such as a debug endpoint. A program chooses settings by [`Config`], and
//! the environment changes them for one run.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `record` (default) | the recorder; without it `#[traced]` leaves nothing, and the API does nothing |
//! | `stream` | `FDR_MODE=stream`, and traces that are sent to an address |
//!
//! The README has the tool that reads traces, and the costs. `docs/variables.md` has the variables of the environment.
//!
//! | room | what it holds |
//! | --- | --- |
//! | `api`, `config` | what the API returns, and what a program chooses |
//! | `primitive` | atomics, which a model checker can replace |
//! | `sys` | every call into libc |
//! | `messages` | lines on stderr |
//! | `clock` | one file per architecture behind one small interface |
//! | `ring` | the ring file: header, tables, one region of chunks per thread |
//! | `site` | one static per traced function, and how copies of the crate find each other |
//! | `recorder` | the hot path: async-signal-safe, allocation-free |
//! | `events` | events, counters and spans: macros, and the bytes of their values |
//! | `sync` | locks, conditions and channels whose waits are recorded |
//! | `dump` | from the ring to a trace file |
//! | `crash` | the same in the handler of a signal that ends the process |
//! | `shell` | the only room that may use all of std: configuration, dumper thread, calibration, streams |
//! | `dynamic` | sites that are made at run time, for the crate `fdr-tracing` |
//! | `load` | the function that the loader calls before `main` |
#![cfg_attr(not(feature = "record"), forbid(unsafe_code))]
// A target without an operating system has no std. There the attribute and the macros are all that is left.
#![cfg_attr(target_os = "none", no_std)]

pub use fdr_macros::traced;

#[cfg(not(target_os = "none"))]
mod api;
#[cfg(feature = "record")]
mod body;
#[cfg(all(feature = "record", target_os = "linux"))]
mod clock;
#[cfg(not(target_os = "none"))]
mod config;
#[cfg(all(feature = "record", target_os = "linux"))]
mod crash;
#[cfg(all(feature = "record", target_os = "linux"))]
mod dump;
#[cfg(all(feature = "record", target_os = "linux"))]
mod events;
// Miri, which runs the tests, calls such functions and has no stand-in for what the linker adds.
#[cfg(all(
    feature = "record",
    not(any(target_family = "wasm", target_os = "none")),
    not(all(miri, test))
))]
mod load;
#[cfg(all(feature = "record", target_os = "linux"))]
mod messages;
#[cfg(all(feature = "record", not(target_os = "linux")))]
#[doc(hidden)]
pub mod no_private;
#[cfg(not(all(feature = "record", target_os = "linux")))]
mod off;
#[cfg(all(feature = "record", target_os = "linux"))]
mod on;
#[cfg(all(feature = "record", target_os = "linux"))]
mod primitive;
#[cfg(all(feature = "record", target_os = "linux"))]
mod recorder;
#[cfg(all(feature = "record", target_os = "linux"))]
mod ring;
#[cfg(all(feature = "record", target_os = "linux"))]
mod shell;
#[cfg(all(feature = "record", target_os = "linux"))]
mod site;
#[cfg(not(target_os = "none"))]
pub mod sync;
#[cfg(all(feature = "record", target_os = "linux"))]
mod sys;
#[cfg(feature = "record")]
mod values;

#[cfg(all(feature = "record", target_os = "linux"))]
#[doc(hidden)]
pub mod dynamic;
#[cfg(all(feature = "record", target_os = "linux"))]
#[doc(hidden)]
pub mod private;

#[cfg(all(feature = "record", not(target_os = "linux")))]
#[doc(hidden)]
pub use no_private as private;

#[cfg(not(target_os = "none"))]
pub use api::{Dump, Error, Failure, Missing, Statistics, ThreadStatistics};
#[cfg(not(target_os = "none"))]
pub use config::{Clock, Config, Log, Mode};
/// The old name of [`gauge!`].
#[doc(hidden)]
pub use gauge as counter;
#[cfg(not(any(all(feature = "record", target_os = "linux"), target_os = "none")))]
pub use off::functions::{
    disable, dump, dump_because, dump_to, enable, is_enabled, mark, set_filter, statistics,
};
#[cfg(not(all(feature = "record", target_os = "linux")))]
pub use off::{Span, Spawned, spawned};
#[cfg(all(feature = "record", target_os = "linux"))]
pub use on::{
    disable, dump, dump_because, dump_to, enable, is_enabled, mark, set_filter, statistics,
};
#[cfg(all(feature = "record", target_os = "linux"))]
pub use private::{Span, Spawned, spawned};
