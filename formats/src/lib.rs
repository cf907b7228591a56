//! Trace formats of the `fdr` flight data recorder, read and written.
//!
//! Every format is a folder: a pure record layer (layout) below a stream layer (state machine). A reader
//! is a [`Source`]. A writer or a report is a [`Sink`]. A conversion pushes a source into a sink. This
//! crate must never import the recorder, use `unsafe`, or trust a length that it read.
//!
//! The [`guide`] has three complete programs: they count calls, find the slowest ones, and convert a trace.
//!
//! The same file name does the same job in each format's folder. `record` is the pure layout, and `scan` walks
//! over a file's units. `index` is the first pass, `names` has the functions, and `list` is the listing. `reader`
//! is the [`Source`], `writer` the [`Writer`], and `fast_path` takes the common case.
//!
//! | room | what it holds |
//! | --- | --- |
//! | [`model`] | the neutral vocabulary: calls, marks, functions, threads, clocks |
//! | [`source`] | the reading side: [`Source`], and sequential or parallel driving |
//! | [`calls`] | the call stack: exits matched with entries, by one rule |
//! | [`packed`] | calls in 8 bytes each |
//! | [`sink`] | the receiving side: [`Sink`] |
//! | [`writer`] | the writing side: [`Writer`], and where a trace goes |
//! | [`bytes`] | bounded reading of files and of records; no method can panic |
//! | [`memory`] | a check whether there is enough memory to continue |
//! | [`scale`] | ticks to nanoseconds: the one rule |
//! | [`registry`] | the one list of formats that are read; probing by content |
//! | [`snapshot_json`] | Trace Compass's own state snapshot, written |
//! | [`filter`] | which function names are wanted, and which are near to a mistyped one |
//! | [`address`] | addresses of streams |
//! | [`identity`] | the origin of a trace: host, boot, build, version, tags |
//! | [`trigger`] | the words of `FDR_TRIGGER`: what makes a recorder dump by itself; the reason of such a trace |
//! | `note_words` | notes in words, for people |
//! | [`notes`] | the kinds of notes and their bytes: events, tasks, arguments, states of threads |
//! | [`text`] | text that others chose, made fit for a terminal |
//! | [`ctf`] | Common Trace Format 1.8 folders |
//! | [`heph`] | traces of Heph, version 0.1.0 |
//! | [`htdump`] | HawkTracer's HTDUMP |
//! | [`tcstate`] | Trace Compass state histories: folders |
//! | [`entrace`] | ENTRACE: ET, IET and `IETPrefix`, versions 1 and 2 |
//! | [`ring`] | the recorder's ring files, of dead and of living processes; read only |
//! | [`xray`] | XRay flight data recorder files, versions 1 to 5 |
//!
//! The feature `read`, which is on by default, brings all readers and every format. Without it there are the writers of
//! the recorder alone: XRay, Heph and HTDUMP. The feature `stream` brings addresses, and the writer that makes XRay of
//! any events. A recorder that only dumps needs neither.
#![forbid(unsafe_code)]
// Layouts are kept whole, although without readers some of their parts are unused.
#![cfg_attr(not(feature = "read"), allow(dead_code))]

pub mod address;
pub mod bytes;
pub mod calls;
#[cfg(feature = "read")]
pub mod ctf;
pub mod duration;
#[cfg(feature = "read")]
mod edges;
#[cfg(feature = "read")]
pub mod entrace;
pub mod error;
mod escaped;
mod facts;
pub mod filter;
mod format;
mod function_numbers;
#[cfg(feature = "read")]
#[doc = include_str!("../GUIDE.md")]
pub mod guide {}
pub mod heph;
pub mod htdump;
pub mod identity;
#[cfg(feature = "read")]
mod json;
pub mod lengths;
pub mod memory;
pub mod model;
pub mod moments;
#[cfg(feature = "read")]
mod note_class;
#[cfg(feature = "read")]
mod note_values;
#[cfg(feature = "read")]
pub mod note_words;
pub mod notes;
mod number_map;
pub mod packed;
pub mod registry;
pub mod ring;
#[cfg(feature = "read")]
mod runs;
pub mod scale;
pub mod share;
pub mod sink;
pub mod size;
#[cfg(feature = "read")]
pub mod snapshot_json;
#[cfg(feature = "read")]
pub mod source;
mod spans;
#[cfg(feature = "stream")]
mod spool;
#[cfg(feature = "read")]
pub mod states;
pub mod tasks;
#[cfg(feature = "read")]
pub mod tcstate;
#[cfg(feature = "stream")]
mod temporary;
pub mod text;
mod thread_numbers;
pub mod trigger;
pub mod utc;
pub mod writer;
pub mod xray;

pub use error::{Diagnostic, Error};
pub use model::{
    Call, Clock, CpuId, Edge, Function, FunctionId, Mark, Nanos, Thread, ThreadId, Ticks, TraceInfo,
};
#[cfg(feature = "read")]
pub use registry::open_path as open;
pub use sink::{Losses, Sink};
#[cfg(feature = "read")]
pub use source::Source;
pub use writer::Writer;
