//! The clock of a ring, as the file's head and its slots state it.

use super::layout::{self, SLOT_SIZE};
use super::reader::Ring;
use crate::model::{Clock, ClockFaults, Ticks};

impl Ring {
    /// The clock of the records.
    pub(super) fn clock(&self) -> Clock {
        let header = &self.header;
        Clock {
            frequency: match header.frequency {
                0 => 1_000_000_000,
                known => known,
            },
            name: clock_name(header.clock).into(),
            constant: header.is_clock_constant(),
            nonstop: header.is_clock_nonstop(),
            anchor: Some((Ticks(header.start_ticks), header.start_realtime)),
            faults: ClockFaults {
                skew_ns: header.clock_skew_ns(),
                steps_back: self.steps_back(),
                ..ClockFaults::default()
            },
            ..Clock::default()
        }
    }

    /// How often threads found the clock behind their last record; what can't be read counts as 0.
    fn steps_back(&self) -> u64 {
        let of_slot = |index: u32| {
            let slots = u64::from(index).saturating_mul(self.header.slot_stride);
            let mut slot = [0; SLOT_SIZE];
            let offset = self.header.slots.saturating_add(slots);
            let count = self.bytes.read_at(offset, &mut slot).unwrap_or(0);
            layout::Slot::decode(&slot[..count]).map_or(0, |slot| slot.clock_steps)
        };
        let slots = 0..self.header.made;
        slots.map(of_slot).fold(0, u64::saturating_add)
    }
}

/// The clocks, as the recorder counts them.
fn clock_name(kind: u32) -> &'static str {
    match kind {
        0 => "rdtscp",
        1 => "rdtsc + rdpid",
        2 => "rdtsc + rseq",
        3 => "cntvct_el0",
        4 => "clock_gettime(CLOCK_MONOTONIC_RAW)",
        _ => "",
    }
}
