//! Whether there is memory to go on with. The library only asks: at each read of a file, and wherever it keeps
//! more without reading. Who uses the library counts and decides, for the whole process. This file must never
//! count anything itself, nor ask on the path of every event.

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
