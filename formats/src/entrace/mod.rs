//! ENTRACE: ET, IET and `IETPrefix`, in version 1 (the document's) and 2 (the current crate's), read
//! and written.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`bincode`] | numbers, texts and lists as bytes, pure |
//! | [`entry`] | layout of an entry, pure |
//! | [`container`] | head of the three containers, pure |
//! | `facts` | what this project's entries and attributes mean |
//! | `tables`, `frames` | where the entries of a file are |
//! | `index`, `names` | the first pass: threads, functions, damage |
//! | `timed`, `walk`, `lanes` | entries to events; `quick`: the common ones |
//! | `list`, `text` | entries to lines, for people |
//! | `reader` | [`EntraceSource`] |
//! | `item`, `store` | what is kept of an event until it is written |
//! | `lane`, `shape` | events to items, items to entries |
//! | `merge`, `output`, `writer` | [`EntraceWriter`]: all threads into a file |
//! | `live` | [`EntraceStream`]: as things happen |

use self::container::{Container, Kind, Version};
use crate::model::TraceInfo;
use crate::registry::{Format, Opener};
use crate::writer::{Begun, Kind as Needs, Output, Target};

pub mod bincode;
pub mod container;
pub mod entry;
mod facts;
mod frames;
mod index;
mod item;
mod lane;
mod lanes;
mod list;
mod live;
mod merge;
mod names;
mod output;
mod quick;
mod reader;
mod shape;
mod store;
mod tables;
mod text;
mod timed;
mod walk;
mod writer;

pub use live::EntraceStream;
pub use reader::EntraceSource;
pub use writer::EntraceWriter;

/// The format.
pub const FORMAT: Format = Format {
    name: "entrace",
    title: "ENTRACE",
    opener: Opener::File {
        probe: container::probe,
        open: |bytes| Ok(Box::new(EntraceSource::open(bytes)?)),
    },
    targets: &[
        Target {
            name: "et",
            title: "ENTRACE ET, version 1",
            extension: "et",
            kind: Needs::File,
            create: |output, info| create(output, Version::V1, Container::Et, info),
        },
        Target {
            name: "iet",
            title: "ENTRACE IET, version 1",
            extension: "iet",
            kind: Needs::Stream,
            create: |output, info| create(output, Version::V1, Container::Iet, info),
        },
        Target {
            name: "iet-prefix",
            title: "ENTRACE IETPrefix, version 1",
            extension: "iet",
            kind: Needs::Stream,
            create: |output, info| create(output, Version::V1, Container::IetPrefix, info),
        },
        Target {
            name: "et2",
            title: "ENTRACE ET, version 2",
            extension: "et",
            kind: Needs::File,
            create: |output, info| create(output, Version::V2, Container::Et, info),
        },
        Target {
            name: "iet2",
            title: "ENTRACE IET, version 2",
            extension: "iet",
            kind: Needs::Stream,
            create: |output, info| create(output, Version::V2, Container::Iet, info),
        },
        Target {
            name: "iet-prefix2",
            title: "ENTRACE IETPrefix, version 2",
            extension: "iet",
            kind: Needs::Stream,
            create: |output, info| create(output, Version::V2, Container::IetPrefix, info),
        },
    ],
};

/// A file is written in order of time; a stream as things happen.
fn create(output: Output, version: Version, container: Container, info: &TraceInfo) -> Begun {
    let kind = Kind { version, container };
    match output {
        Output::Stream(stream) if container != Container::Et => {
            Ok(Box::new(EntraceStream::new(stream, kind, info)))
        }
        output => Ok(Box::new(EntraceWriter::new(
            output.into_file()?,
            kind,
            info,
        ))),
    }
}
