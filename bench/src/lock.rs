//! Locks without contention: those of the standard library and of parking_lot, and the recorder's replacements. While
//! recording is off, a replacement must cost no more than a load and a branch.

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
        "parking_lot" => {
            let lock = black_box(parking_lot::Mutex::new(0));
            (0..count).for_each(|_| add_parking_lot(&lock));
            Ok(lock.into_inner())
        }
        "fdr-parking-lot" => {
            let lock = black_box(fdr_parking_lot::Mutex::new(0));
            (0..count).for_each(|_| add_fdr_parking_lot(&lock));
            Ok(lock.into_inner())
        }
        _ => Err(format!(
            "unknown library {library}: std, fdr, parking_lot or fdr-parking-lot"
        )),
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

#[inline(never)]
fn add_parking_lot(lock: &parking_lot::Mutex<u64>) {
    *lock.lock() += 1;
}

#[inline(never)]
fn add_fdr_parking_lot(lock: &fdr_parking_lot::Mutex<u64>) {
    *lock.lock() += 1;
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_libraries_lock() {
        for library in ["std", "fdr", "parking_lot", "fdr-parking-lot"] {
            assert_eq!(super::lock(library, 7), Ok(7), "{library}");
        }
        assert!(super::lock("other", 7).is_err());
    }
}
