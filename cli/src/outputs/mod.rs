//! Traces and other outputs, written: in which format, where to, and under which name.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`target`] | the formats by their names |
//! | [`names`], [`destination`] | files and folders; standard output and programs that listen |
//! | [`conversion`] | a source into a writer, with what could not be held |
//! | `read_thread`, `write_thread` | reading, encoding and writing at the same time |
//! | [`export`] | formats of other people's viewers, written only |
//! | [`map`] | the names of functions for llvm-xray |

pub(crate) mod conversion;
pub(crate) mod destination;
pub(crate) mod export;
pub(crate) mod map;
pub(crate) mod names;
mod read_thread;
pub(crate) mod target;
mod write_thread;
