//! Traces of Heph, an actor framework for Rust: format version 0.1.0, read and written. A record is a
//! whole call, written when it has ended. This folder must never believe a length that a file states.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `record` | layout of packets and attributes, pure |
//! | `facts` | the events and attributes that this project adds |
//! | `scan` | the packets of a file, and its damage |
//! | `decoder_state`, `names` | packets to calls of threads and functions |
//! | `index` | the first pass over a file |
//! | `list` | packets to lines, for people |
//! | `notes` | notes as events with attributes, and back |
//! | `details` | the attributes of a call or a mark, read |
//! | `reader` | [`HephSource`], and the second pass |
//! | `tables`, `encoder_state` | functions, threads and counters, written |
//! | `event_parts` | an event of any length, written |
//! | `fact_encoder` | what a trace says of itself, written |
//! | `rows` | substreams for events that begin in the same microsecond |
//! | `writer` | [`HephWriter`]: events of any format to a stream |

use crate::format::Format;
#[cfg(feature = "read")]
use crate::format::Opener;
use crate::model::TraceInfo;
use crate::writer::{Kind, Output, Target, WriterResult};

#[cfg(feature = "read")]
mod decoder_state;
#[cfg(feature = "read")]
mod details;
mod encoder_state;
mod event_parts;
mod fact_encoder;
mod facts;
#[cfg(feature = "read")]
mod index;
#[cfg(feature = "read")]
mod list;
mod names;
#[cfg(feature = "read")]
mod notes;
#[cfg(feature = "read")]
mod reader;
mod record;
mod rows;
#[cfg(feature = "read")]
mod scan;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

#[cfg(feature = "read")]
pub use reader::HephSource;
pub use writer::HephWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "heph",
    title: "Heph",
    #[cfg(feature = "read")]
    opener: Opener::File {
        probe: |head| record::head(head).is_some(),
        open: |bytes| Ok(Box::new(HephSource::open(bytes)?)),
    },
    targets: &[Target {
        name: "heph",
        title: "Heph, version 0.1.0",
        extension: "heph",
        kind: Kind::Stream,
        file_as_stream: true,
        create,
    }],
};

/// A function, because a closure in a constant is compiled again in each crate that uses the constant.
fn create(output: Output, info: &TraceInfo) -> WriterResult {
    let out = output.into_stream()?;
    Ok(Box::new(HephWriter::new(out, info)))
}
