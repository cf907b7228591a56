//! The program `steadfast`, in want of something.

use std::path::Path;

use fdr_tests::support::faults;
use fdr_tests::support::folder::Folder;

pub(crate) use fdr_tests::support::faults::{Leftovers, Row, UNSHARE};

/// See [`Row::new`].
pub(crate) fn steadfast(variables: &str, before: &str, steps: &str) -> Row {
    let program = Path::new(env!("CARGO_BIN_EXE_steadfast"));
    Row::new(program, variables, before, steps)
}

/// See [`faults::may`].
pub(crate) fn may(case: &str, before: &str) -> bool {
    faults::may(case, &Folder::new("fault-may"), before)
}

/// Every way in which a trace is asked for, or a program ends.
pub(crate) fn all_ways() -> Vec<String> {
    [
        "exit",
        "signal exit",
        "dump exit",
        "caught exit",
        "panic",
        "threads exit",
        "fork",
        "abort",
        "crash",
    ]
    .into_iter()
    .map(|way| format!("work {way}"))
    .collect()
}
