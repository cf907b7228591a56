//! Library crate used by the examples.
