//! The names of this process's traces, in the order of their numbers.

use core::sync::atomic::Ordering;
use std::path::PathBuf;

use super::state::State;
use crate::clock;
use crate::dump::NUMBER;
use crate::dump::output::Names;
use crate::sys;

/// How many numbers are tried until no file has the name.
const NUMBERS: u32 = 10_000;

#[cfg(feature = "stream")]
/// Returns [`current`], and moves on to the next number.
pub(super) fn take(state: &State) -> PathBuf {
    let path = current(state);
    NUMBER.fetch_add(1, Ordering::Relaxed);
    path
}

/// Moves on to the next number, and returns its path.
pub(super) fn after(state: &State) -> PathBuf {
    NUMBER.fetch_add(1, Ordering::Relaxed);
    current(state)
}

/// The path of the next dump. If names have numbers, it is a name that no file has, because another process may
/// have had the same pid.
pub(super) fn current(state: &State) -> PathBuf {
    let number = free_number(state);
    NUMBER.store(number, Ordering::Relaxed);
    path_of(state, number)
}

/// The path that the next dump is going to have. Unlike [`current`] it takes no number.
pub(super) fn next(state: &State) -> PathBuf {
    path_of(state, free_number(state))
}

/// The next number whose name no file has.
fn free_number(state: &State) -> u32 {
    let first = NUMBER.load(Ordering::Relaxed);
    if !state.output().is_numbered() {
        return first;
    }
    (first..first.saturating_add(NUMBERS))
        .find(|&number| path_of(state, number).symlink_metadata().is_err())
        .unwrap_or(first)
}

#[inline(never)]
fn path_of(state: &State, number: u32) -> PathBuf {
    state.output().path(&Names {
        program: &state.program,
        pid: sys::process::pid(),
        number: u64::from(number),
        unix_time_s: clock::realtime_ns() / 1_000_000_000,
    })
}
