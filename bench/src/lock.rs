//! A lock that nobody waits for: that of the standard library, and the recorder's, which must cost no more than a load
//! and a branch while recording is off.

use std::hint::black_box;

use crate::work;

/// Locks and unlocks so often, by the lock of that library. The thread has made a record before, if recording is on.
///
/// # Errors
///
/// If there is no such library.
pub(crate) fn lock(library: &str, count: u64) -> Result<u64, String> {
    black_box(work::traced::leaf(1));
    match library {
        "std" => {
            let lock = black_box(std::sync::Mutex::new(0));
            (0..count).for_each(|_| add_std(&lock));
            lock.into_inner().map_err(|error| error.to_string())
        }
        "fdr" => {
            let lock = black_box(fdr::sync::Mutex::new(0));
            (0..count).for_each(|_| add_fdr(&lock));
            lock.into_inner().map_err(|error| error.to_string())
        }
        _ => Err(format!("unknown library {library}: std or fdr")),
    }
}

#[inline(never)]
fn add_std(lock: &std::sync::Mutex<u64>) {
    if let Ok(mut number) = lock.lock() {
        *number += 1;
    }
}

#[inline(never)]
fn add_fdr(lock: &fdr::sync::Mutex<u64>) {
    if let Ok(mut number) = lock.lock() {
        *number += 1;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_libraries_lock() {
        assert_eq!(super::lock("std", 7), Ok(7));
        assert_eq!(super::lock("fdr", 7), Ok(7));
        assert!(super::lock("other", 7).is_err());
    }
}
