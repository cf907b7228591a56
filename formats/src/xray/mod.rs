//! XRay flight data recorder files, versions 1 to 5, read; versions 1 and 3, written. This folder must
//! never believe a length that leaves the file.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`record`] | layout of every record, pure |
//! | [`payload`] | layout of the custom events that this project adds |
//! | `index` | where the blocks are, and what the file states about itself |
//! | `search` | where the blocks of a damaged file are |
//! | `decode` | records to events |
//! | `time` | the running time, also of a clock that begins anew or jumps |
//! | `list` | records to lines, for people |
//! | `reader` | [`XraySource`], and parts of a thread |
//! | `balance` | the records that a block lacks, so that each exit has its entry |
//! | `chunk_scan`, `fast_path` | the same for ring chunks; jumps of the clock |
//! | `chunk_decoder` | [`ChunkDecoder`]: ring chunks to events; [`push_thread`]: to any sink |
//! | `frame` | header, blocks and their ends, written |
//! | `dump` | [`DumpWriter`]: ring chunks to a file, by copying |
//! | [`crash_dump`] | the same without allocation, for a crashed process |
//! | [`crash_totals`] | the totals of its threads |
//! | `thread_state`, `entry_spool`, `writer` | [`XrayWriter`]: events of any format to a file |

#[cfg(feature = "stream")]
use std::fs::File;

use crate::format::Format;
#[cfg(feature = "read")]
use crate::format::Opener;
use crate::model::TraceInfo;
use crate::writer::{Kind, Output, Target, WriterResult};

mod balance;
mod chunk_decoder;
mod chunk_scan;
pub mod crash_dump;
mod crash_states;
pub mod crash_totals;
#[cfg(feature = "read")]
mod decode;
mod dump;
#[cfg(feature = "stream")]
mod entry_spool;
mod fast_path;
mod frame;
#[cfg(feature = "read")]
mod index;
#[cfg(feature = "read")]
mod list;
pub mod payload;
#[cfg(feature = "read")]
mod reader;
pub mod record;
#[cfg(feature = "read")]
mod search;
#[cfg(feature = "stream")]
mod thread_state;
mod time;
#[cfg(feature = "stream")]
mod writer;

pub use chunk_decoder::ChunkDecoder;
pub use chunk_decoder::push_thread;
#[cfg(feature = "read")]
pub(crate) use chunk_scan::latest;
pub use dump::{BlockSummary, DumpSummary, DumpWriter};
pub use frame::Version;
#[cfg(feature = "read")]
pub use reader::XraySource;
#[cfg(feature = "stream")]
pub use writer::XrayWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "xray",
    title: "XRay FDR",
    #[cfg(feature = "read")]
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

#[cfg(feature = "stream")]
fn create(output: Output, version: Version, info: &TraceInfo) -> WriterResult {
    let file: File = output.into_file()?;
    Ok(Box::new(XrayWriter::new(file, version, info)?))
}

/// Without the writer of any events, there are [`DumpWriter`] and [`crash_dump`].
#[cfg(not(feature = "stream"))]
fn create(_: Output, _: Version, _: &TraceInfo) -> WriterResult {
    let what = "fdr-formats writes events as XRay with its feature `stream`";
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, what).into())
}
