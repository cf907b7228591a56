//! ENTRACE, read and written: ET, IET and `IETPrefix`, in version 1 (the document's) and 2 (the current
//! crate's). This folder must never trust a length, an offset or an order that a file states.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`bincode`] | numbers, texts and lists as bytes, pure |
//! | [`record`] | layout of head and entry, pure |
//! | `facts` | the meaning of this project's entries and attributes |
//! | `scan`, `tables` | the place of each entry in a file |
//! | `index`, `names` | the first pass: threads, functions, damage |
//! | `decode` | entries to events |
//! | `list` | entries to lines, for people |
//! | `reader` | [`EntraceSource`]; also entries without times |
//! | `item` | what is kept of an event until its entry is written, pure |
//! | `thread_encoder`, `encode` | events to items, items to entries |
//! | `notes` | notes as entries, and back |
//! | `writer` | [`EntraceWriter`]: all threads into a file |
//!
//! ENTRACE has spans and events in a tree, each with named values. It has no times and no threads.
//!
//! # Read
//!
//! Files of other people's programs have no times. The place in a walk through the tree replaces the
//! time: depth first, children in ascending order, one tick a step. Every entry but the root is then a
//! call on one thread, and all calls nest. [`TraceInfo::format`] says "without times". Unsigned values
//! become arguments. The message and other values become the text of an event. Memory is then 16 bytes
//! for each entry during the decoding; otherwise memory does not grow with the entries.
//!
//! The reader trusts nothing. Parents must come before their children. Version 2's attributes must be
//! sorted. An ET's offsets and pool must agree with its entries. After damage, an `IETPrefix` and an ET
//! continue with the next entry; an IET cannot.
//!
//! # Written
//!
//! A call is an entry of level Info without message. Its name is the function's name. Its target and
//! `module_path` are the module part of the name. Its file and line are the function's. A function
//! without a name is `#17`, by its number. Attributes are sorted by bytes in both versions, and U64
//! unless the table says otherwise:
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
//! The parent of an entry is the call in which it happened, or the root. Entries that are no calls have
//! the target `fdr`:
//!
//! | name | parent | meaning, attributes |
//! | --- | --- | --- |
//! | `fdr:trace` | root | the trace: `anchor_ns` and `anchor_unix_ns` (the same moment, since tick 0 and since 1970), `clock` (its name), `clock_ahead_ns`, `clock_constant`, `clock_error_ppm`, `clock_hz` (of the source), `clock_nonstop`, `clock_skew_ns`, `clock_steps_back`, `clock_wall_step_ns`, `dump`, `end_ns` (of the dump), `missing_retired_records`, `missing_retired_threads`, `missing_unplaced_records`, `process`, `program`, `reason`, `start_ns` |
//! | `fdr:function` | `fdr:trace` | a function: `file`, `function`, `line`, `name`, `untimed` (true where it is), `what` (1 the name of an event, 2 another name of notes) |
//! | `fdr:thread` | `fdr:trace` | a thread: `dropped`, `name`, `overwritten`, `process`, `readable`, `recorded`, `synthetic_entries`, `synthetic_exits`, `tid`; a later one replaces it |
//! | `fdr:custom` | the call | an event: `cpu` where it was with it, `data` (Bytes), `start_ns`, `tid`; short text is the message too |
//! | `fdr:typed` | the call | an event with a type: `data`, `start_ns`, `tid`, `type` |
//! | `fdr:lost` | the call | `records` function records are missing here; `start_ns`, `tid` |
//! | `fdr:wall` | the call | the wall-clock time here: `micros`, `seconds`, `start_ns`, `tid` |
//!
//! A note is an entry with a message and the attribute `fdr.note`; its parent is the call.
//!
//! [`EntraceWriter`] writes the entries in order of time over all threads.

use self::record::{Container, Kind, Version};
use crate::format::{Format, Opener};
use crate::model::TraceInfo;
use crate::writer::{Kind as Needs, Output, Target, WriterResult};

pub mod bincode;
mod decode;
mod encode;
mod facts;
mod index;
mod item;
mod list;
mod names;
mod notes;
mod reader;
pub mod record;
mod scan;
mod tables;
mod thread_encoder;
mod writer;

pub use reader::EntraceSource;
pub use writer::EntraceWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "entrace",
    title: "ENTRACE",
    opener: Opener::File {
        probe: record::probe,
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
            kind: Needs::File,
            file_as_stream: false,
            create: |output, info| create(output, Version::V1, Container::Iet, info),
        },
        Target {
            name: "iet-prefix",
            title: "ENTRACE IETPrefix, version 1",
            extension: "iet",
            kind: Needs::File,
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
            kind: Needs::File,
            file_as_stream: false,
            create: |output, info| create(output, Version::V2, Container::Iet, info),
        },
        Target {
            name: "iet-prefix2",
            title: "ENTRACE IETPrefix, version 2",
            extension: "iet",
            kind: Needs::File,
            file_as_stream: false,
            create: |output, info| create(output, Version::V2, Container::IetPrefix, info),
        },
    ],
};

fn create(
    output: Output,
    version: Version,
    container: Container,
    info: &TraceInfo,
) -> WriterResult {
    let kind = Kind { version, container };
    let file = output.into_file()?;
    Ok(Box::new(EntraceWriter::new(file, kind, info)))
}
