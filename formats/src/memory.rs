//! Asks whether there is memory to go on. The library only asks: at each read of a file, and wherever it
//! keeps more without a read. The user of the library counts for the whole process, and decides. This file
//! must never count, nor ask on the path of every event.

use std::io;
use std::sync::OnceLock;

/// Says whether reading may go on: an error ends it, and is given to the caller as the file's own would be.
pub type Check = fn() -> io::Result<()>;

static CHECK: OnceLock<Check> = OnceLock::new();

/// From here on the library asks this check. The first one stays. Without one, nothing is refused.
pub fn set_check(check: Check) {
    let _ = CHECK.set(check);
}

/// Asks.
///
/// # Errors
/// What the check says.
pub fn check() -> io::Result<()> {
    CHECK.get().map_or(Ok(()), |check| check())
}
