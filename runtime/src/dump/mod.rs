//! From the ring to a trace file. `snapshot` copies one thread's records; `file` writes all of them
//! under a temporary name and renames it. Recording threads are never stopped.

pub(crate) mod file;
pub(crate) mod snapshot;
