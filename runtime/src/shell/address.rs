//! The addresses that traces are sent to, as far as settings know them.

use std::ffi::OsStr;
use std::path::Path;

pub(crate) use fdr_formats::address::Address;
use fdr_formats::address::Side;

use crate::config::Mode;

/// The address in the text of `FDR_OUT`. `None`: it is the name of a file.
pub(crate) fn parse(text: &OsStr, start: &Path) -> Option<Result<Address, String>> {
    Address::parse(text, start, Side::Program)
}

/// Any mode will do, because this build can stream.
pub(crate) fn check_mode(mode: Mode) -> Result<Mode, String> {
    Ok(mode)
}

/// Whether the child of a fork sends traces there: over a connection of its own.
pub(crate) fn is_of_children(address: &Address) -> bool {
    matches!(address, Address::Connect(_) | Address::Unix(_))
}

/// Whether a trace goes to the program's standard output.
pub(crate) fn is_stdout(address: &Address) -> bool {
    matches!(address, Address::Stdout)
}
