//! HawkTracer's HTDUMP, read in any klass and byte order, and written in either byte order.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`record`] | layout of the header and of HawkTracer's klasses, pure |
//! | `klass` | the klasses that are written: HawkTracer's and ours |
//! | `escape` | texts that every reader takes |
//! | `schema`, `meaning` | what a stream announces: klasses to layouts, and what they say |
//! | `walk` | records one by one |
//! | `scout` | where streams begin, in a file of several |
//! | `names` | identifiers and labels to functions |
//! | `items` | what a record says |
//! | `index`, `gather` | the first pass over a file |
//! | `list` | records to lines, for people |
//! | `reader` | records to events: [`HtdumpSource`] |
//! | `tables`, `stream`, `writer` | events to records: [`HtdumpWriter`] |

mod escape;
#[cfg(feature = "read")]
mod gather;
#[cfg(feature = "read")]
mod index;
#[cfg(feature = "read")]
mod items;
mod klass;
#[cfg(feature = "read")]
mod list;
#[cfg(feature = "read")]
mod meaning;
mod names;
#[cfg(feature = "read")]
mod reader;
pub mod record;
#[cfg(feature = "read")]
mod schema;
#[cfg(feature = "read")]
mod scout;
mod stream;
mod tables;
#[cfg(feature = "read")]
mod walk;
mod writer;

use crate::bytes::ByteOrder;
use crate::model::TraceInfo;
use crate::registry::{Format, Opener};
use crate::writer::{Begun, Kind, Output, Target};

#[cfg(feature = "read")]
pub use reader::HtdumpSource;
pub use writer::HtdumpWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "htdump",
    title: "HawkTracer HTDUMP",
    opener: Opener::File {
        #[cfg(feature = "read")]
        probe: |head| record::order(head).is_some(),
        #[cfg(feature = "read")]
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

fn create(output: Output, order: ByteOrder, info: &TraceInfo) -> Begun {
    let out = output.into_stream()?;
    Ok(Box::new(HtdumpWriter::new(out, order, info)))
}
