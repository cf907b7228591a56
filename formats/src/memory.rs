//! A check whether there is enough memory to continue. The library only asks: at each read of a file, and wherever it
//! keeps more without a read. The user of the library counts for the whole process, and decides.

use std::io;
use std::sync::OnceLock;

/// Says whether reading may go on. An error ends the read, and the caller gets it like an error of the
/// file.
pub type Check = fn() -> io::Result<()>;

static CHECK: OnceLock<Check> = OnceLock::new();

/// From now on the library asks this check. A second call changes nothing. Without a check, nothing is
/// refused.
pub fn set_check(check: Check) {
    let _ = CHECK.set(check);
}

/// Asks the check.
///
/// # Errors
/// The answer of the check.
pub fn check() -> io::Result<()> {
    CHECK.get().map_or(Ok(()), |check| check())
}
