//! The twin of `stream`, `address` and `connection` in a build without the feature `stream`: there are no addresses, so
//! nothing can be sent to one.

use core::ffi::CStr;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use fdr_formats::address;

use super::sites::TableHandle;
use super::state::State;
use crate::api::{Dump, Error, Failure};
use crate::config::Mode;
use crate::ring::Ring;

/// The type of addresses. It has no values in this build.
pub(crate) type Address = Infallible;

const NEEDS: &str = "this program can't stream: build it with the feature `stream` of fdr";

/// `None`: the text is the name of a file. `Some`: it is an address, which this build refuses.
pub(crate) fn parse(text: &OsStr, _: &Path) -> Option<Result<Address, String>> {
    address::is_address(text).then(|| Err(NEEDS.to_owned()))
}

/// Refuses the mode that needs the feature.
pub(crate) fn check_mode(mode: Mode) -> Result<Mode, String> {
    match mode {
        Mode::Stream => Err(NEEDS.to_owned()),
        _ => Ok(mode),
    }
}

pub(crate) fn is_of_children(address: &Address) -> bool {
    match *address {}
}

pub(crate) fn is_stdout(address: &Address) -> bool {
    match *address {}
}

pub(crate) fn name(address: &Address) -> String {
    match *address {}
}

pub(crate) fn prepare(address: &Address) -> Result<(), Failure> {
    match *address {}
}

pub(crate) fn open(address: &Address) -> io::Result<Box<dyn Write>> {
    match *address {}
}

/// The name of the thread, in another copy of the recorder that can stream.
pub(crate) const NAME: &CStr = c"fdr-stream";

pub(crate) fn start(_: &'static State, _: TableHandle) {}

pub(crate) fn is_begun() -> bool {
    false
}

pub(crate) fn is_running() -> bool {
    false
}

/// Never called, because no stream has begun.
pub(crate) fn flush(_: &Ring, _: TableHandle) -> Result<Dump, Error> {
    Err(Error::failed(NEEDS, ""))
}

/// Never called, because no stream has begun.
pub(crate) fn finish(_: TableHandle, _: bool) -> Result<(), Error> {
    Ok(())
}

/// Called in the child of a fork. Async-signal-safe.
pub(crate) fn forget() {}
