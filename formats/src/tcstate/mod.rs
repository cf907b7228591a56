//! Trace Compass state snapshot exchange: the state of a program over time, as a tree of attributes
//! with a timeline each, in a folder of five files. Written from any trace, and read back. This folder
//! must never believe a key, an offset or an order that a file states.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `record` | layout of history.bin, pure |
//! | `meta` | meta.json, written and read |
//! | `thread_encoder` | a thread's calls as pushes and pops of a call stack |
//! | `merge` | the threads in one order of time |
//! | `state_system` | changes to intervals; the attributes of a program |
//! | `schedule` | the states of threads as attributes |
//! | `strings` | the names of functions, numbered |
//! | `writer` | events of any format to a folder; types.json, tree.json and state.json |
//! | `tree`, `names` | types.json, tree.json and the strings, read |
//! | `scan` | the intervals, checked one after the other |
//! | `order` | intervals in the order of their ends to entries and exits in order of time |
//! | `switches` | the states of threads, read |
//! | `index` | the first pass over a folder |
//! | `reader` | [`TcstateSource`], and the second pass |
//! | `list` | intervals to lines, for people |
//! | [`state`] | the state of any trace at a time |
//!
//! Source: a proposal on the tracecompass-dev list. `record`, `meta`, `state_system` and `writer` define
//! what the proposal leaves open, so that the intervals are those of Trace Compass's own state system.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::format::{Format, Opener};
use crate::writer::{Kind, Target};

mod index;
mod list;
mod merge;
mod meta;
mod names;
mod order;
mod reader;
mod record;
mod scan;
mod schedule;
pub mod state;
mod state_system;
mod strings;
mod switches;
mod thread_encoder;
mod tree;
mod writer;

pub use reader::TcstateSource;

/// The files of a folder, beside meta.json: role and name.
const FILES: [(&str, &str); 4] = [
    ("types", "types.json"),
    ("tree", "tree.json"),
    ("state", "state.json"),
    ("history", "history.bin"),
];
const META: &str = "meta.json";

/// The format.
pub const FORMAT: Format = Format {
    name: "tcstate",
    title: "Trace Compass state history",
    opener: Opener::Folder {
        probe: is_history,
        open: |folder| Ok(Box::new(TcstateSource::open(folder)?)),
    },
    targets: &[Target {
        name: "tcstate",
        title: "Trace Compass state history",
        extension: "tcstate",
        kind: Kind::Folder,
        file_as_stream: false,
        create: |output, info| {
            let folder = output.into_folder()?;
            Ok(Box::new(writer::TcstateWriter::new(folder, info)))
        },
    }],
};

/// Whether a folder has a history.
#[must_use]
pub fn is_history(folder: &Path) -> bool {
    let mut magic = [0; record::MAGIC.len()];
    let file = File::open(folder.join(FILES[3].1));
    file.and_then(|mut file| file.read_exact(&mut magic))
        .is_ok()
        && magic == *record::MAGIC
}
