//! Common Trace Format 1.8: a folder of a `metadata` file, which describes everything else, and of
//! stream files, which are made of packets. Written so that babeltrace2 and Trace Compass's call
//! stack view read it and so that it describes itself; read as far as other programs' traces go.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `layout` | layout of every record that we write, pure |
//! | `metadata` | the text that describes them |
//! | `clock` | ticks to the ns that readers take |
//! | `packets`, `lane` | a thread's events into packets |
//! | `folder`, `symbols` | the folder's files; what Trace Compass wants beside the trace |
//! | `writer` | [`CtfWriter`]: events of any format to a folder |
//! | `text`, `tsdl` | metadata files, and the language that they are in |
//! | `compile`, `node`, `schema` | what a metadata text says, ready to be read |
//! | `walk` | values off the bytes, pure |
//! | `stream`, `fast` | a stream file, step by step; calls of ours, by the places of their fields |
//! | `index`, `facts` | which files there are, whose they are, what the trace says of itself |
//! | `decode`, `list` | steps to events; steps to lines, for people |
//! | `reader` | [`CtfSource`] |

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::model::TraceInfo;
use crate::registry::{Format, Opener};
use crate::writer::{Begun, Kind, Output, Target};

mod clock;
#[cfg(feature = "read")]
mod compile;
#[cfg(feature = "read")]
mod decode;
#[cfg(feature = "read")]
mod facts;
#[cfg(feature = "read")]
mod fast;
mod folder;
#[cfg(feature = "read")]
mod index;
mod lane;
mod layout;
#[cfg(feature = "read")]
mod list;
mod metadata;
#[cfg(feature = "read")]
mod node;
mod packets;
#[cfg(feature = "read")]
mod reader;
#[cfg(feature = "read")]
mod schema;
#[cfg(feature = "read")]
mod stream;
mod symbols;
mod text;
#[cfg(feature = "read")]
mod tsdl;
#[cfg(feature = "read")]
mod walk;
mod writer;

#[cfg(feature = "read")]
pub use reader::CtfSource;
pub use writer::CtfWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "ctf",
    title: "CTF",
    opener: Opener::Folder {
        probe: is_trace,
        #[cfg(feature = "read")]
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

/// Whether a folder holds a metadata file that begins as CTF's do.
fn is_trace(folder: &Path) -> bool {
    let mut head = Vec::new();
    let path = folder.join("metadata");
    let regular = std::fs::metadata(&path).is_ok_and(|about| about.is_file());
    let file = File::open(path).ok().filter(|_| regular);
    file.is_some_and(|file| file.take(64).read_to_end(&mut head).is_ok()) && text::probe(&head)
}

fn create(output: Output, info: &TraceInfo) -> Begun {
    Ok(Box::new(CtfWriter::new(output.into_folder()?, info)?))
}
