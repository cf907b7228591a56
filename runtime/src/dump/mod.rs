//! From the ring to a trace. `snapshot` copies one thread's records; `file` writes all of them, as the
//! recorder's own format or through it as any other; `staged` is the temporary name that a trace has
//! until it is whole; `tail` follows a thread's records while they are made. Recording threads are
//! never stopped.

pub(crate) mod file;
pub(crate) mod snapshot;
pub(crate) mod staged;
pub(crate) mod tail;
