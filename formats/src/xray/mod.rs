//! XRay flight data recorder files, versions 1 to 5, read; versions 1 and 3, written.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`record`], `encode` | layout of every record, pure |
//! | [`payload`] | layout of the custom events that this project adds |
//! | `index`, `heads`, `search` | where the blocks are and what the file says of itself |
//! | `decode` | records to events, fast |
//! | `part` | where a thread may be divided, and parts of it decoded |
//! | `time` | the running time, also of a clock that begins anew or jumps |
//! | `list` | records to lines, for people |
//! | `reader` | [`XraySource`] |
//! | `balance`, `ids` | which records a block lacks, so that each exit has its entry |
//! | `walk`, `plain`, `scan` | the same, of ring chunks |
//! | `jump` | where a clock jumped ahead |
//! | `frame` | header, blocks and their ends, written |
//! | `chunk` | [`ChunkDecoder`]: ring chunks to events |
//! | `dump` | [`DumpWriter`]: ring chunks to a file, by copying |
//! | `events` | [`push_thread`]: the same to any sink |
//! | [`bare`] | the same without allocation, for a process that crashed |
//! | `writer` | [`XrayWriter`]: events of any format to a file |

use std::fs::File;

use crate::model::TraceInfo;
use crate::registry::{Format, Opener};
use crate::writer::{Begun, Kind, Output, Target};

mod balance;
pub mod bare;
mod chunk;
mod decode;
mod dump;
mod encode;
mod events;
mod frame;
mod heads;
mod ids;
mod index;
mod jump;
mod lane;
mod list;
mod part;
pub mod payload;
mod plain;
mod reader;
pub mod record;
mod scan;
mod search;
mod time;
mod walk;
mod writer;

pub use chunk::ChunkDecoder;
pub use dump::{BlockSummary, DumpSummary, DumpWriter};
pub use events::push_thread;
pub use frame::Version;
pub use reader::XraySource;
pub(crate) use walk::latest;
pub use writer::XrayWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "xray",
    title: "XRay FDR",
    opener: Opener::File {
        probe: |head| record::decode_header(head).is_some(),
        open: |bytes| Ok(Box::new(XraySource::open(bytes)?)),
    },
    targets: &[
        Target {
            name: "xray",
            title: "XRay FDR, version 3",
            extension: "fdr",
            kind: Kind::File,
            file_as_stream: false,
            create: |output, info| create(output, Version::V3, info),
        },
        Target {
            name: "xray1",
            title: "XRay FDR, version 1",
            extension: "fdr",
            kind: Kind::File,
            file_as_stream: false,
            create: |output, info| create(output, Version::V1, info),
        },
    ],
};

fn create(output: Output, version: Version, info: &TraceInfo) -> Begun {
    let file: File = output.into_file()?;
    Ok(Box::new(XrayWriter::new(file, version, info)?))
}
