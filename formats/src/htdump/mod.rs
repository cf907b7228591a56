//! HawkTracer's HTDUMP, read in any klass and byte order, and written in either byte order. This folder
//! must never believe a size that a stream announces.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`record`] | layout of the header and of HawkTracer's klasses, and escaped texts, pure |
//! | `klass` | the klasses that are written: HawkTracer's and ours |
//! | `fields` | a field of a record, and how it is read |
//! | `schema` | the klasses that a stream announces: their layouts and meanings |
//! | `scan` | records one by one |
//! | `stream_starts` | where streams begin, in a file of several |
//! | `names` | identifiers and labels to functions |
//! | `notes`, `note_reader` | notes as records of klasses of their own, and back |
//! | `items` | the meaning of a record |
//! | `index` | the first pass over a file |
//! | `list` | records to lines, for people |
//! | `reader` | [`HtdumpSource`], and the second pass |
//! | `encoder_state`, `writer` | [`HtdumpWriter`]: events to records |

mod encoder_state;
#[cfg(feature = "read")]
mod fields;
#[cfg(feature = "read")]
mod index;
#[cfg(feature = "read")]
mod items;
mod klass;
#[cfg(feature = "read")]
mod list;
mod names;
#[cfg(feature = "read")]
mod note_reader;
#[cfg(feature = "read")]
mod notes;
#[cfg(feature = "read")]
mod reader;
pub mod record;
#[cfg(feature = "read")]
mod scan;
#[cfg(feature = "read")]
mod schema;
#[cfg(feature = "read")]
mod stream_starts;
mod writer;

use crate::bytes::ByteOrder;
use crate::format::Format;
#[cfg(feature = "read")]
use crate::format::Opener;
use crate::model::TraceInfo;
use crate::writer::{Kind, Output, Target, WriterResult};

#[cfg(feature = "read")]
pub use reader::HtdumpSource;
pub use writer::HtdumpWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "htdump",
    title: "HawkTracer HTDUMP",
    #[cfg(feature = "read")]
    opener: Opener::File {
        probe: |head| record::order(head).is_some(),
        open: |bytes| Ok(Box::new(HtdumpSource::open(bytes)?)),
    },
    targets: &[
        Target {
            name: "htdump",
            title: "HawkTracer HTDUMP, little-endian",
            extension: "htdump",
            kind: Kind::Stream,
            file_as_stream: true,
            create: |output, info| create(output, ByteOrder::Little, info),
        },
        Target {
            name: "htdump-be",
            title: "HawkTracer HTDUMP, big-endian",
            extension: "htdump",
            kind: Kind::Stream,
            file_as_stream: true,
            create: |output, info| create(output, ByteOrder::Big, info),
        },
    ],
};

fn create(output: Output, order: ByteOrder, info: &TraceInfo) -> WriterResult {
    let out = output.into_stream()?;
    Ok(Box::new(HtdumpWriter::new(out, order, info)))
}
