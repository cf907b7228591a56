//! The one bound of memory. All memory of the process is counted where it is allocated. A trace that needs more than
//! `--max-memory` is refused. The message names what grew, and the option that allows more. A caller that is refused
//! memory ends its own work.
//!
//! [`BorrowedMemory`] adds the memory that a C library allocates.

use std::alloc::System;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fdr_formats::memory;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::ui;

/// Counts. It refuses nothing: an allocation that fails would end the process without a word.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that an allocated block takes in addition to the requested ones: its head, and the padding up to the next
/// block. Names are short. Without this constant, millions of names would count as a third of their real size.
const BESIDE: u64 = 24;

/// The default of the bound: 512 MiB.
pub(crate) const DEFAULT: &str = "512M";

/// The part of the bound for memory that the counts do not include: the program, stacks, and buffers of C libraries. It
/// is a quarter of the bound, and at most this many bytes.
const UNCOUNTED: u64 = 128 << 20;

static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
static LENT: AtomicU64 = AtomicU64::new(0);
static GROWS: Mutex<&str> = Mutex::new("what is known of the trace");

/// Sets the bound, in bytes, and has the readers and writers of the formats ask for it.
pub(crate) fn set_limit(bytes: u64) {
    // Relaxed: a number by itself.
    LIMIT.store(bytes, Ordering::Relaxed);
    memory::set_check(check);
}

/// The bound, in bytes.
pub(crate) fn limit() -> u64 {
    LIMIT.load(Ordering::Relaxed)
}

/// What grows from here on, in words: the subject of a refusal.
pub(crate) fn grows(what: &'static str) {
    *GROWS.lock().unwrap_or_else(PoisonError::into_inner) = what;
}

/// What blocks take, in bytes.
fn allocated() -> u64 {
    let stats = ALLOCATOR.stats();
    // Another thread may free a block while the numbers are read one after the other.
    let left = |more: usize, less: usize| more.saturating_sub(less) as u64;
    let blocks = left(stats.allocations, stats.deallocations);
    left(stats.bytes_allocated, stats.bytes_deallocated) + blocks * BESIDE
}

/// Checks whether the process is still within its bound.
///
/// # Errors
/// [`MemoryRefusal`], in an error of the system's kind "out of memory".
pub(crate) fn check() -> io::Result<()> {
    let limit = LIMIT.load(Ordering::Relaxed);
    let room = limit - (limit / 4).min(UNCOUNTED);
    if allocated() + LENT.load(Ordering::Relaxed) <= room {
        return Ok(());
    }
    let what = *GROWS.lock().unwrap_or_else(PoisonError::into_inner);
    Err(io::Error::new(
        io::ErrorKind::OutOfMemory,
        MemoryRefusal { what, limit },
    ))
}

/// Whether an error is a refusal for want of memory, wherever it came up.
pub(crate) fn is_refusal(error: &fdr_formats::Error) -> bool {
    matches!(error, fdr_formats::Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<MemoryRefusal>()))
}

/// A refusal.
#[derive(Debug)]
struct MemoryRefusal {
    what: &'static str,
    limit: u64,
}

impl fmt::Display for MemoryRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, limit } = self;
        let limit = ui::size(*limit);
        write!(
            f,
            "{what} would take more memory than the {limit} that are allowed; --max-memory allows more, \
             as in --max-memory 4G"
        )
    }
}

impl std::error::Error for MemoryRefusal {}

/// Memory that the allocator does not see, for as long as this lives.
#[derive(Debug)]
pub(crate) struct BorrowedMemory(u64);

impl BorrowedMemory {
    /// Adds `bytes` bytes to the count until the value is dropped.
    pub(crate) fn new(bytes: u64) -> BorrowedMemory {
        LENT.fetch_add(bytes, Ordering::Relaxed);
        BorrowedMemory(bytes)
    }
}

impl Drop for BorrowedMemory {
    fn drop(&mut self) {
        LENT.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_and_lent_memory_is_counted() {
        const ALONE: &str = "FDR_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            // Other tests of this process would release memory meanwhile.
            let name = "memory::tests::allocated_and_lent_memory_is_counted";
            let this = std::env::current_exe().expect("this program");
            let mut alone = std::process::Command::new(this);
            let output = alone.args([name, "--exact"]).env(ALONE, "1").output();
            let output = output.expect("it runs");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && said.contains("1 passed"),
                "{said}"
            );
            return;
        }
        let before = allocated();
        let block = vec![0_u8; 64 << 20];
        assert!(allocated() >= before.saturating_sub(8 << 20) + (56 << 20));
        drop(block);
        let before = allocated();
        let blocks: Vec<Box<u8>> = (0..1 << 20).map(|_| Box::new(7)).collect();
        assert!(allocated() >= before.saturating_sub(8 << 20) + (32 << 20));
        drop(blocks);
        let lent = BorrowedMemory::new(7 << 40);
        assert!(LENT.load(Ordering::Relaxed) >= 7 << 40);
        drop(lent);
        assert!(LENT.load(Ordering::Relaxed) < 7 << 40);
    }

    #[test]
    fn refusals_name_cause_and_remedy() {
        let refusal = MemoryRefusal {
            what: "the table",
            limit: 512 << 20,
        };
        assert_eq!(
            refusal.to_string(),
            "the table would take more memory than the 512.0 MiB that are allowed; --max-memory allows \
             more, as in --max-memory 4G"
        );
    }
}
