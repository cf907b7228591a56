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

use crate::format::{Format, Opener};
use crate::model::TraceInfo;
use crate::writer::{Begun, Kind, Output, Target};

mod clock;
mod compile;
mod decode;
mod facts;
mod fast;
mod folder;
mod index;
mod lane;
mod layout;
mod list;
mod metadata;
mod node;
mod packets;
mod reader;
mod schema;
mod stream;
mod symbols;
mod text;
mod tsdl;
mod walk;
mod writer;

pub use reader::CtfSource;
pub use writer::CtfWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "ctf",
    title: "CTF",
    opener: Opener::Folder {
        probe: reader::probe,
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

fn create(output: Output, info: &TraceInfo) -> Begun {
    Ok(Box::new(CtfWriter::new(output.into_folder()?, info)?))
}
