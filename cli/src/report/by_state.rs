//! Calls of a thread whose states are known. A batch of edges ends where the state changes, so the stack takes only
//! edges of one state at once.

use fdr_formats::packed::Packed;
use fdr_formats::{Call, Ticks};

use super::stack::{Batch, Stack};
use super::stats::Table;
use crate::off_cpu::lasting;

impl Stack {
    /// The next edge is at that time.
    pub(super) fn reach(&mut self, time: Ticks, table: &mut Table) {
        let Some(absence) = &mut self.absence else {
            return;
        };
        if absence.lasts(time) {
            return;
        }
        absence.reach(time, &mut self.calls, |open, less| {
            if let Some(around) = open.last() {
                let place = table.place(around.function);
                table.at(place).own_away.take(less);
            }
        });
    }

    pub(super) fn run_by_state(&mut self, batch: &mut Batch, table: &mut Table, calls: &[Call]) {
        let mut rest = calls;
        while let Some(first) = rest.first() {
            self.reach(first.time, table);
            let lasts = |call: &Call| {
                let absence = self.absence.as_ref();
                absence.is_none_or(|absence| absence.lasts(call.time))
            };
            let count = rest.iter().take_while(|call| lasts(call)).count().max(1);
            let (now, later) = rest.split_at(count);
            self.follow(batch, table, now);
            rest = later;
        }
    }

    pub(super) fn run_packed_by_state(
        &mut self,
        batch: &mut Batch,
        table: &mut Table,
        packed: &Packed<'_>,
    ) {
        let (mut from, mut base) = (0, packed.base.0);
        while let Some(first) = packed.get(from) {
            self.reach(Ticks(base.wrapping_add(first.delta())), table);
            let until = self.absence.as_ref().map(|absence| absence.until());
            let until = until.map_or(u64::MAX, |until| until.0);
            let (count, ticks) = lasting(packed, from, base, until);
            let mut now = packed.part(from, count);
            now.base = Ticks(base);
            self.follow_packed(batch, table, &now);
            (from, base) = (from + count, base.wrapping_add(ticks));
        }
    }
}
