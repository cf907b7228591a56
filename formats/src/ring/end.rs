//! The last moment of a trace that is made of a ring: until when the process is known to have lived. Open calls last
//! until then.

use super::Ring;
use super::copy::{Copy, SlotContent};
use super::layout::Header;
use crate::model::Ticks;
use crate::{scale, xray};

impl Ring {
    /// The process runs. The value is the current time by CLOCK_MONOTONIC_RAW, in ns.
    pub fn lasts_until(&mut self, now: u64) {
        self.now = Some(now);
    }

    /// The moment of a trace. It is the moment of the crash, if there was one, or now, if the process
    /// runs. Otherwise the process was killed, and the moment is that of its latest readable record.
    pub(super) fn end(&self) -> Option<Ticks> {
        if let Some(crash) = self.header.crash() {
            return Some(Ticks(crash.ticks));
        }
        let latest = self.latest();
        self.tick_now().map_or(latest, |now| Some(now.max(latest?)))
    }

    /// The tick of `now`, by the clock's rate; `None` if one of the two is unknown.
    pub(super) fn tick_now(&self) -> Option<Ticks> {
        let Header {
            start_ticks,
            start_monotonic,
            frequency,
            ..
        } = self.header;
        let passed = self.now?.checked_sub(start_monotonic)?;
        let ticks = scale::ticks_in(passed.into(), frequency);
        let ticks = u64::try_from(ticks).ok().filter(|_| frequency > 0)?;
        start_ticks.checked_add(ticks).map(Ticks)
    }

    /// The time of the latest record of any thread. Unreadable records have no time.
    fn latest(&self) -> Option<Ticks> {
        let (mut copy, mut latest) = (Copy::default(), None);
        for index in 0..self.header.made {
            let Ok(SlotContent::Thread) = copy.take(&*self.bytes, &self.header, index, 1) else {
                continue;
            };
            let (chunks, _) = copy.chunks();
            latest = latest.max(chunks.last().and_then(|chunk| xray::latest(chunk)));
        }
        latest
    }
}
