//! The recorder's ring file, read: the memory of a process that was killed, or that still records.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`layout`] | every part of the file, pure |
//! | `walk` | what a chunk may hold, pure |
//! | [`control`] | what `fdr ctl` and a running recorder write to each other, pure |
//! | [`moments`] | the named moments, pure |
//! | [`schedule`] | the states of threads, pure |
//! | `schedule_reader` | those states, read from a file |
//! | `clock` | the clock of the records |
//! | `crash` | a crash in words |
//! | `end` | the moment of a trace |
//! | [`arguments`] | the arguments of open calls, pure |
//! | [`open_calls`] | the open calls of a thread whose short calls leave no records, pure |
//! | `live` | totals and open calls of a process that runs |
//! | `newest` | a thread's newest chunk, where slot and marks disagree |
//! | `file_slot` | one slot, read part by part |
//! | `totals` | what a thread's calls of each function took |
//! | `copy` | one thread's records, beside a writer that may be at work |
//! | `reader` | [`Ring`]: the whole file, and its way into a trace |
//!
//! The result is what a dump of the recorder gives: an XRay FDR trace with names, counts and
//! balanced calls. The reader checks everything in a ring file that can be checked. It does not look
//! for the process.

#[cfg(feature = "read")]
use crate::format::{Format, Opener};

pub mod arguments;
#[cfg(feature = "read")]
mod clock;
pub mod control;
#[cfg(feature = "read")]
mod copy;
#[cfg(feature = "read")]
mod crash;
#[cfg(feature = "read")]
mod end;
#[cfg(feature = "read")]
mod file_slot;
pub mod layout;
#[cfg(feature = "read")]
mod live;
pub mod moments;
#[cfg(feature = "read")]
mod newest;
pub mod open_calls;
#[cfg(feature = "read")]
mod reader;
pub mod schedule;
#[cfg(feature = "read")]
mod schedule_reader;
#[cfg(feature = "read")]
mod totals;
#[cfg(feature = "read")]
mod walk;

pub use layout::Crash;
#[cfg(feature = "read")]
pub use live::{LiveThread, Reading};
#[cfg(feature = "read")]
pub use open_calls::OpenCall;
#[cfg(feature = "read")]
pub use reader::{Copied, Ring, open_source};

/// The format. There is no way to write it: only the recorder does.
#[cfg(feature = "read")]
pub const FORMAT: Format = Format {
    name: "ring",
    title: "fdr ring",
    opener: Opener::File {
        probe: |head| head.starts_with(&layout::MAGIC),
        open: |bytes| reader::open_source(bytes, "", None),
    },
    targets: &[],
};
