//! One file per command: its options, its help, and what it does.

pub(crate) mod info;
pub(crate) mod map;
pub(crate) mod record;
pub(crate) mod records;
pub(crate) mod report;
pub(crate) mod verify;

/// How a command ended, where it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// As it should.
    Done,
    /// The trace is not as it should be.
    Violations,
    /// As a command that was run.
    Code(u8),
}
