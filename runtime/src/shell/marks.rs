//! Named moments: `fdr ctl PID mark` and `fdr::mark`.

use fdr_formats::moments;
use fdr_formats::text::owned;

use super::state::State;
use crate::clock;
use crate::config::Mode;
use crate::ring::{self, Ring};
use crate::sys::lock::Lock;

/// Held while a moment is added.
static ADDING: Lock<()> = Lock::new(());

/// Names this moment. Returns what was done, in words.
///
/// # Errors
/// What is wrong with the name, or why there is no place for it.
pub(crate) fn add(ring: &Ring, state: &State, text: &str) -> Result<String, String> {
    let ticks = clock::read(state.chosen.kind).ticks;
    let name = moments::parse(text)?;
    if state.config.mode == Mode::Stream {
        return Err(owned(
            "a stream has no place for marks: FDR_MODE=ring has one",
        ));
    }
    if ADDING.is_mine() {
        return Err(owned("a handler interrupted its thread in another mark"));
    }
    let _guard = ADDING.lock();
    let number = ring::moments::add(ring.moments(), ticks, name);
    Ok(format!("mark {number}: {name}"))
}
