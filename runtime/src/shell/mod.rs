//! The only room where std's comforts are allowed: configuration from the environment, bringing the
//! recorder up, the dumper thread, calibration, the API's calls. Nothing in here is called from the
//! recorder; what runs in a signal handler or in a child of `fork` says so.

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
