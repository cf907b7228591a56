//! Common Trace Format 1.8: a folder of stream files, which are made of packets, and a `metadata` file,
//! which describes them. Our folders describe themselves; babeltrace2 and Trace Compass's call stack view
//! read them. Other programs' traces are read as far as the reader understands them. This folder must never
//! believe a size or a type that a metadata text states.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `record` | layout of every record that we write, pure |
//! | `note_classes`, `note_reader` | notes as events with typed fields, and back |
//! | `metadata` | the text that describes them |
//! | `states` | the states of threads, in a file of their own |
//! | `packets`, `thread_encoder` | a thread's events into packets; ticks to ns |
//! | `writer` | [`CtfWriter`]: events of any format to a folder |
//! | `text`, `tsdl` | metadata files, and their language |
//! | `types`, `schema` | what a metadata text declares, ready for reading |
//! | `values` | values from bytes, pure |
//! | `stream` | a stream file, step by step |
//! | `index`, `facts` | the files, their threads, and what the trace states about itself |
//! | `list` | steps to lines, for people |
//! | `reader` | [`CtfSource`], and steps to events |

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::format::{Format, Opener};
use crate::model::TraceInfo;
use crate::writer::{Kind, Output, Target, WriterResult};

mod facts;
mod index;
mod list;
mod metadata;
mod note_classes;
mod note_reader;
mod packets;
mod reader;
mod record;
mod schema;
mod states;
mod stream;
mod text;
mod thread_encoder;
mod tsdl;
mod types;
mod values;
mod writer;

pub use reader::CtfSource;
pub use writer::CtfWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "ctf",
    title: "CTF",
    opener: Opener::Folder {
        probe: is_trace,
        open: |folder| Ok(Box::new(CtfSource::open(folder)?)),
    },
    targets: &[Target {
        name: "ctf",
        title: "CTF 1.8, with LTTng's names for calls",
        extension: "ctf",
        kind: Kind::Folder,
        file_as_stream: false,
        create,
    }],
};

/// Whether a folder holds a CTF metadata file.
fn is_trace(folder: &Path) -> bool {
    let mut head = Vec::new();
    let path = folder.join("metadata");
    let regular = std::fs::metadata(&path).is_ok_and(|about| about.is_file());
    let file = File::open(path).ok().filter(|_| regular);
    file.is_some_and(|file| file.take(64).read_to_end(&mut head).is_ok()) && text::probe(&head)
}

fn create(output: Output, info: &TraceInfo) -> WriterResult {
    Ok(Box::new(CtfWriter::new(output.into_folder()?, info)?))
}
