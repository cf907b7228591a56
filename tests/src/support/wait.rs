//! Waiting for a condition, with a deadline: tests never sleep and hope.

use std::thread;
use std::time::{Duration, Instant};

/// No condition of these tests takes so long on a working machine, however loaded.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Polls until `condition` gives a value.
///
/// # Panics
///
/// After [`DEADLINE`], with `what`.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
