//! A flight data recorder for Rust programs.
//!
//! Put [`#[traced]`](traced) on functions, run the program with `FDR=1`, and its last seconds are a
//! trace file. See the README for the environment variables; this is the API beside them.
//!
//! | room | what it holds |
//! | --- | --- |
//! | `site` | one static per traced function, and the table of them |
//! | `clock` | one file per architecture behind one small interface |
//! | `sys` | every call into libc |
//! | `recorder` | the hot path: async-signal-safe, allocation-free |
//! | `ring` | the ring file: header, tables, one region of chunks per thread |
//! | `dump` | from the ring to a trace file |
//! | `shell` | the only room with std's comforts: configuration, dumper thread, calibration |
#![cfg_attr(not(feature = "record"), forbid(unsafe_code))]

pub use fdr_macros::traced;

mod api;
#[cfg(feature = "record")]
mod clock;
#[cfg(feature = "record")]
mod dump;
#[cfg(not(feature = "record"))]
mod off;
#[cfg(feature = "record")]
mod on;
#[cfg(feature = "record")]
mod recorder;
#[cfg(feature = "record")]
mod ring;
#[cfg(feature = "record")]
mod shell;
#[cfg(feature = "record")]
mod site;
#[cfg(feature = "record")]
mod sys;

#[cfg(feature = "record")]
#[doc(hidden)]
pub mod private;

pub use api::{Dump, Error, Statistics, ThreadStatistics};
#[cfg(not(feature = "record"))]
pub use off::{disable, dump, enable, is_enabled, set_filter, statistics};
#[cfg(feature = "record")]
pub use on::{disable, dump, enable, is_enabled, set_filter, statistics};
