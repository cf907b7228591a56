//! Packed calls whose every exit ends the innermost call. Nearly all calls are of that kind. No processor can predict
//! whether an entry or an exit comes next, so both take the same instructions instead of a branch. All other calls are
//! handed to the rules. Must never find anything by itself.

use fdr_formats::packed::PackedCall;
use fdr_formats::{FunctionId, Ticks};

use super::State;

/// Calls that are taken at once; a power of two.
const ROOM: usize = 256;
/// Open calls that so many may come to, and none below them.
const REACH: usize = 2 * ROOM;

/// The innermost open calls, from the second place on.
#[derive(Debug)]
pub(super) struct Window(Box<[(FunctionId, u64); REACH]>);

impl Default for Window {
    fn default() -> Self {
        // No trace has such a function: they have 28 bits.
        Window(Box::new([(FunctionId(u32::MAX), 0); REACH]))
    }
}

impl State {
    /// Takes calls while they are plain, up to some hundred; none has an odd edge. Gives back the first
    /// that is not, and keeps `time`, that of the call before, up to it.
    pub(super) fn take_plain(
        &mut self,
        window: &mut Window,
        calls: &mut impl Iterator<Item = PackedCall>,
        time: &mut u64,
    ) -> Option<PackedCall> {
        let base = self.open.len().saturating_sub(ROOM - 1);
        // A stack that was higher in between has had the room for it.
        self.open.reserve(ROOM);
        let near = self.open.get(base..).unwrap_or(&[]);
        let above = 1 + near.len();
        let places = window.0.get_mut(1..above);
        if let Some(places) = places {
            places.copy_from_slice(near);
        } else {
            let call = calls.next()?;
            *time = time.wrapping_add(call.delta());
            return Some(call);
        }
        let (mut above, mut number, mut now) = (above, self.number, *time);
        let (mut other, mut last) = (None, now);
        for call in calls.take(ROOM) {
            now = now.wrapping_add(call.delta());
            // All ones for an exit, else zero.
            let exit = call.plainly_left().cast_signed();
            // The call to come, or the innermost one.
            let place = &mut window.0[above.wrapping_add_signed(exit as isize) % REACH];
            if (place.0.0 ^ call.function().0) & exit as u32 != 0 {
                other = Some(call);
                break;
            }
            number += 1;
            *place = (call.function(), number);
            above = above.wrapping_add_signed((exit | 1) as isize);
            last = now;
        }
        let before = self.open.len();
        self.open.truncate(base);
        let open = window.0.get(1..above).unwrap_or(&[]);
        self.open.extend_from_slice(open);
        // Those that are open now were entered, and so were half of the others.
        let taken = (number - self.number) as usize;
        let entered = (taken + self.open.len()).wrapping_sub(before) / 2;
        self.rule.entered(entered);
        (self.number, self.last, *time) = (number, Ticks(last), now);
        other
    }
}
