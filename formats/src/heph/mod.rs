//! Traces of Heph, an actor framework for Rust: format version 0.1.0, read and written. A record is a
//! whole call, written when it has ended.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `record`, `encode` | layout of packets and attributes, pure |
//! | `facts` | the events and attributes that this project adds |
//! | `walk` | packets of a file, and what is damage |
//! | `reading`, `names`, `streams` | packets to calls of threads and functions |
//! | `index`, `decode` | the two passes over a file |
//! | `list` | packets to lines, for people |
//! | `reader` | [`HephSource`] |
//! | `tables`, `book` | functions, threads and counters, written |
//! | `parts` | an event in as many packets as it needs |
//! | `writer` | [`HephWriter`]: events of any format to a stream |

use crate::registry::{Format, Opener};
use crate::writer::{Kind, Target};

mod book;
#[cfg(feature = "read")]
mod decode;
mod encode;
mod facts;
#[cfg(feature = "read")]
mod index;
#[cfg(feature = "read")]
mod list;
mod names;
mod parts;
#[cfg(feature = "read")]
mod reader;
#[cfg(feature = "read")]
mod reading;
mod record;
mod streams;
mod tables;
#[cfg(test)]
mod tests;
#[cfg(feature = "read")]
mod walk;
mod writer;

#[cfg(feature = "read")]
pub use reader::HephSource;
pub use writer::HephWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "heph",
    title: "Heph",
    opener: Opener::File {
        #[cfg(feature = "read")]
        probe: |head| record::head(head).is_some(),
        #[cfg(feature = "read")]
        open: |bytes| Ok(Box::new(HephSource::open(bytes)?)),
    },
    targets: &[Target {
        name: "heph",
        title: "Heph, version 0.1.0",
        extension: "heph",
        kind: Kind::Stream,
        file_as_stream: true,
        create: |output, info| {
            let out = output.into_stream()?;
            Ok(Box::new(HephWriter::new(out, info)))
        },
    }],
};
