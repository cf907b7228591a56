//! ENTRACE: ET, IET and `IETPrefix`, in version 1 (the document's) and 2 (the current crate's), read
//! and written.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`bincode`] | numbers, texts and lists as bytes, pure |
//! | [`entry`] | layout of an entry, pure |
//! | [`container`] | head of the three containers, pure |
//! | `facts` | what this project's entries and attributes mean |
//! | `tables`, `frames` | where the entries of a file are |
//! | `index`, `names` | the first pass: threads, functions, damage |
//! | `timed`, `walk`, `lanes` | entries to events; `quick`: the common ones |
//! | `list`, `text` | entries to lines, for people |
//! | `reader` | [`EntraceSource`] |
//! | `item` | what is kept of an event until it is written |
//! | `lane`, `shape`, `numbers` | events to items, items to entries |
//! | `merge`, `output`, `behind`, `writer` | [`EntraceWriter`]: all threads into a file |
//! | `live` | [`EntraceStream`]: as things happen |
//!
//! ENTRACE knows spans and events in a tree, each with named values, and neither times nor threads.
//!
//! # Read
//!
//! Files of other people's programs have no times: the place in a walk through the tree (depth first,
//! children in ascending order) stands for it, one tick a step, all on one thread, so that every entry
//! but the root is a call and all nest. [`TraceInfo::format`] says "without times". Unsigned values
//! become arguments, the message and other values the text of an event. Memory is then 16 bytes for
//! each entry while they are decoded; otherwise it does not grow with them.
//!
//! Nothing is trusted: parents must come before their children, version 2's attributes must be sorted,
//! an ET's offsets and pool must be what its entries say. After damage, an `IETPrefix` and an ET go on
//! with the next entry; an IET can't.
//!
//! # Written
//!
//! A call is an entry of level Info without message. Its name is the function's, target and
//! `module_path` are the module part of that, file and line are the function's. A function without a
//! name is `#17`, by its number. Attributes, sorted by bytes in both versions, U64 unless said:
//!
//! | attribute | meaning |
//! | --- | --- |
//! | `arg0`, `arg1`, … | arguments |
//! | `cpu` | CPU at the entry |
//! | `duration_ns` | from entry to exit; not there if the exit is not known. I64 where the clock went back |
//! | `exit_cpu` | CPU at the exit, where it changed since the thread's edge before |
//! | `flags` | 1: the entry is synthetic; 2: the exit is; 4: left by a tail call; 8: only an exit is known, at `start_ns`; 16: has arguments, none of which is known. Not there if 0 |
//! | `function` | the function's number, where the metadata fits several functions |
//! | `start_ns` | time of the entry, in ns since tick 0 of the trace's clock |
//! | `tid` | thread |
//!
//! The parent of an entry is the call that it happened in, or the root. What is no call has the target
//! `fdr`:
//!
//! | name | parent | meaning, attributes |
//! | --- | --- | --- |
//! | `fdr:trace` | root | the trace: `anchor_ns` and `anchor_unix_ns` (the same moment, since tick 0 and since 1970), `clock` (its name), `clock_ahead_ns`, `clock_constant`, `clock_error_ppm`, `clock_hz` (of the source), `clock_nonstop`, `clock_skew_ns`, `clock_steps_back`, `clock_wall_step_ns`, `dump`, `end_ns` (of the dump), `missing_retired_records`, `missing_retired_threads`, `missing_unplaced_records`, `process`, `program`, `reason`, `start_ns` |
//! | `fdr:function` | `fdr:trace` | a function: `file`, `function`, `line`, `name`, `untimed` (true where it is) |
//! | `fdr:thread` | `fdr:trace` | a thread: `dropped`, `name`, `overwritten`, `process`, `readable`, `recorded`, `synthetic_entries`, `synthetic_exits`, `tid`; a later one replaces it |
//! | `fdr:custom` | the call | an event: `cpu` where it was with it, `data` (Bytes), `start_ns`, `tid`; short text is the message too |
//! | `fdr:typed` | the call | an event with a type: `data`, `start_ns`, `tid`, `type` |
//! | `fdr:lost` | the call | `records` function records are missing here; `start_ns`, `tid` |
//! | `fdr:wall` | the call | the wall-clock time here: `micros`, `seconds`, `start_ns`, `tid` |
//! | `fdr:exit` | the call | it ended at `start_ns`; of a call that was sent before its end. `exit_cpu`, `flags`, `tid` |
//!
//! A file has its entries in the order of their times, over all threads ([`EntraceWriter`]). A stream
//! has them as soon as their calls have ended, or cannot be waited for ([`EntraceStream`]).

use self::container::{Container, Kind, Version};
use crate::model::TraceInfo;
use crate::registry::{Format, Opener};
use crate::writer::{Begun, Kind as Needs, Output, Target};

mod behind;
pub mod bincode;
pub mod container;
pub mod entry;
mod facts;
#[cfg(feature = "read")]
mod frames;
#[cfg(feature = "read")]
mod index;
mod item;
mod lane;
#[cfg(feature = "read")]
mod lanes;
#[cfg(feature = "read")]
mod list;
mod live;
mod merge;
mod names;
mod numbers;
mod output;
#[cfg(feature = "read")]
mod quick;
#[cfg(feature = "read")]
mod reader;
mod shape;
#[cfg(feature = "read")]
mod tables;
#[cfg(feature = "read")]
mod text;
#[cfg(feature = "read")]
mod timed;
#[cfg(feature = "read")]
mod walk;
mod writer;

pub use live::EntraceStream;
#[cfg(feature = "read")]
pub use reader::EntraceSource;
pub use writer::EntraceWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "entrace",
    title: "ENTRACE",
    opener: Opener::File {
        #[cfg(feature = "read")]
        probe: container::probe,
        #[cfg(feature = "read")]
        open: |bytes| Ok(Box::new(EntraceSource::open(bytes)?)),
    },
    targets: &[
        Target {
            name: "et",
            title: "ENTRACE ET, version 1",
            extension: "et",
            kind: Needs::File,
            file_as_stream: false,
            create: |output, info| create(output, Version::V1, Container::Et, info),
        },
        Target {
            name: "iet",
            title: "ENTRACE IET, version 1",
            extension: "iet",
            kind: Needs::Stream,
            file_as_stream: false,
            create: |output, info| create(output, Version::V1, Container::Iet, info),
        },
        Target {
            name: "iet-prefix",
            title: "ENTRACE IETPrefix, version 1",
            extension: "iet",
            kind: Needs::Stream,
            file_as_stream: false,
            create: |output, info| create(output, Version::V1, Container::IetPrefix, info),
        },
        Target {
            name: "et2",
            title: "ENTRACE ET, version 2",
            extension: "et",
            kind: Needs::File,
            file_as_stream: false,
            create: |output, info| create(output, Version::V2, Container::Et, info),
        },
        Target {
            name: "iet2",
            title: "ENTRACE IET, version 2",
            extension: "iet",
            kind: Needs::Stream,
            file_as_stream: false,
            create: |output, info| create(output, Version::V2, Container::Iet, info),
        },
        Target {
            name: "iet-prefix2",
            title: "ENTRACE IETPrefix, version 2",
            extension: "iet",
            kind: Needs::Stream,
            file_as_stream: false,
            create: |output, info| create(output, Version::V2, Container::IetPrefix, info),
        },
    ],
};

/// A file is written in order of time; a stream as things happen.
fn create(output: Output, version: Version, container: Container, info: &TraceInfo) -> Begun {
    let kind = Kind { version, container };
    match output {
        Output::Stream(stream) if container != Container::Et => {
            Ok(Box::new(EntraceStream::new(stream, kind, info)))
        }
        output => Ok(Box::new(EntraceWriter::new(
            output.into_file()?,
            kind,
            info,
        ))),
    }
}
