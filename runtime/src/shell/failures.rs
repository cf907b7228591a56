//! Lines about failures: a trace that was not written, a ring without space, data that a format has no place for.

use std::io;
use std::path::Path;

use fdr_formats::Losses;
use fdr_formats::writer::Target;

use crate::api::{Error, Failure};
use crate::messages;
use crate::recorder::ring;
use crate::ring::{Ring, Shortage};

/// The error for a ring whose file was cut short.
pub(crate) fn lost(ring: &Ring) -> Error {
    let path = ring.path().unwrap_or_default().to_string_lossy();
    let what = format!("the ring is lost: {path} was cut short by somebody, or can't be read");
    Error::failed(&what, "`fdr dump` finds what is left in it")
}

/// Prints why there is no trace and where the records are, even if an earlier line gave the reason.
pub(crate) fn print_no_trace(failure: &Failure) {
    let why = failure.in_full();
    let (is_lost, path) = ring().map_or((false, None), |ring| (ring.is_lost(), ring.path()));
    match path {
        _ if is_lost => messages::warn(format_args!("no trace was written: {why}")),
        Some(path) => messages::warn(format_args!(
            "no trace was written: {why}; for `fdr dump`, the records are still in {}",
            path.to_string_lossy()
        )),
        None => messages::warn(format_args!(
            "no trace was written: {why}; the records are in memory only"
        )),
    }
}

/// The error for a trace that can't be written, with advice.
pub(crate) fn why_not(path: &Path, error: io::Error) -> Failure {
    let remedy = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => "make its folder, or end FDR_OUT with a /",
        (io::ErrorKind::FileTooLarge, _) => "raise the limit on the size of files (ulimit -f)",
        (io::ErrorKind::OutOfMemory, _) => "a smaller FDR_BUFFER needs less",
        (_, Some(libc::EMFILE | libc::ENFILE)) => "raise the limit of open files (ulimit -n)",
        _ => "FDR_OUT gives another place",
    };
    Failure::new(&path.to_string_lossy(), remedy, Some(error))
}

/// Prints which data the format could not hold.
pub(crate) fn print_losses(target: &Target, losses: &Losses) {
    if !losses.is_empty() {
        messages::info(format_args!(
            "not in the trace ({}): {losses}",
            target.title
        ));
    }
}

/// Says once that a part of the ring has no space on the disk.
pub(crate) fn print_shortage(ring: &Ring) {
    if let Some(Shortage { error, is_partial }) = ring.take_shortage() {
        // The kernel reports this errno if it allows no more mappings.
        let place = match error {
            libc::ENOMEM => "in memory",
            _ => "on the disk",
        };
        let error = std::io::Error::from_raw_os_error(error);
        let so = match is_partial {
            true => "it keeps fewer records than FDR_BUFFER has room for",
            false => "it is in memory only, and lost with the process",
        };
        messages::ring_error(format_args!(
            "no space for a thread's ring {place}: {error}; {so}; set FDR_DIR or a smaller FDR_BUFFER"
        ));
    }
}
