//! The data of a wait that copies of the crate exchange, and the switch of all waits. Plain numbers, because the host
//! records the waits of a guest. This file must never look at a clock or a thread.

use super::CallSite;
use crate::primitive::AtomicU64;

/// On while recording is on. By one load, `sync` knows whether a lock needs more than the lock of the standard library.
#[used]
#[unsafe(link_section = "fdr_sites_12")]
pub(crate) static WAITS: CallSite = CallSite::new::<()>("", 0).waits();

/// Readers that hold a lock: how many, from this bit on. The bits below are the sum of their places.
pub(crate) const READERS: u32 = 48;

/// A thread's wait for an object.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The address of the object.
    pub(crate) object: u64,
    /// The tick at which the wait began.
    pub(crate) begin: u64,
    /// The kernel's id of the thread that holds the object. 0 = not known.
    pub(crate) thread: u32,
    /// The function that this thread was in. 0 = not known.
    pub(crate) function: u32,
    /// The id of the object's name. 0 = it has none yet.
    pub(crate) name: u32,
    /// One of `fdr_formats::notes::reason`.
    pub(crate) reason: u32,
}

const _: () = assert!(size_of::<Wait>() == 32);

/// The holders of an object: the words into which they write themselves. An object without such words has no holder.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Holders<'a> {
    /// The one thread that holds the object exclusively (`recorder::wait::me`). 0 = no thread does, or it is not known.
    pub(crate) owner: Option<&'a AtomicU64>,
    /// The threads that share it, see [`READERS`].
    pub(crate) readers: Option<&'a AtomicU64>,
}
