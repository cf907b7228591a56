//! The part of the recorder that may use all of std. It has the configuration, the start of the recorder, the
//! dumper thread, calibration, streams, and the calls of the API. The hot path must never call anything in this
//! room. A function that runs in a signal handler or in a child of `fork` says so.

pub(crate) mod budget;
mod calibrate;
pub(crate) mod clock_faults;
pub(crate) mod commands;
pub(crate) mod config;
#[cfg(feature = "stream")]
pub(crate) mod connection;
pub(crate) mod control;
pub(crate) mod dumper;
pub(crate) mod dumping;
pub(crate) mod fork;
pub(crate) mod guest;
pub(crate) mod handover;
mod identity;
pub(crate) mod install;
pub(crate) mod last_thread;
pub(crate) mod made;
mod memory_limits;
pub(crate) mod names;
#[cfg(not(feature = "stream"))]
mod no_stream;
pub(crate) mod panics;
pub(crate) mod sites;
pub(crate) mod skew;
#[cfg(feature = "stream")]
pub(crate) mod stream;
pub(crate) mod triggers;
mod waits;

#[cfg(not(feature = "stream"))]
use no_stream::{self as connection, self as stream};
