//! The part of the recorder that may use all of std. It has the configuration, the start of the recorder, the
//! dumper thread, calibration, streams, and the calls of the API. The hot path must never call anything in this
//! room. A function that runs in a signal handler or in a child of `fork` says so.

pub(crate) mod calibrate;
pub(crate) mod clock_faults;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod control;
pub(crate) mod dumper;
pub(crate) mod dumping;
pub(crate) mod fork;
pub(crate) mod guest;
pub(crate) mod install;
pub(crate) mod last_thread;
pub(crate) mod names;
pub(crate) mod panics;
pub(crate) mod sites;
pub(crate) mod skew;
pub(crate) mod stream;
