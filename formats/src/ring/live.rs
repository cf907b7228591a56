//! What the threads of a running process have done until now: their totals and their open calls, without their records.
//! Two readings give what happened between them.

use std::io;

use super::file_slot::FileSlot;
use super::layout::{ENDED, LIVE};
use super::open_calls::{OpenCall, OpenCalls};
use super::reader::Ring;
use super::totals;
use crate::model::{FunctionTotals, ThreadId, Ticks};

/// Attempts: for the ring, until no slot changes its owner while it is read; for a slot, until all calls that were open
/// before its totals were read are still open afterwards.
const MAX_TRIES: u32 = 8;

/// The threads at about one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The threads that own a slot, and the ended threads whose slot has no new owner yet.
    pub threads: Vec<LiveThread>,
    /// The totals of ended threads whose slots have new owners.
    pub ended: Vec<FunctionTotals>,
    /// The ring keeps totals: not with `FDR_KEEP=0`.
    pub has_totals: bool,
    /// The present tick of the ring's clock. `None`: the caller gave no time, or the clock's rate is not known.
    pub now: Option<Ticks>,
}

/// A thread of a [`Reading`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveThread {
    /// The place of its slot, and which owner of the slot it is: together they name it.
    pub slot: u32,
    /// See `slot`.
    pub generation: u64,
    /// The kernel's number of it.
    pub id: ThreadId,
    /// Its name.
    pub name: String,
    /// It has ended.
    pub has_ended: bool,
    /// The number of its newest chunk, from 1; 0: none yet.
    pub chunk: u64,
    /// The totals of its calls that have ended.
    pub totals: Vec<FunctionTotals>,
    /// Its calls that have not, the outermost first.
    pub open: Vec<OpenCall>,
}

impl Ring {
    /// Reads the totals and the open calls of the threads. [`Ring::lasts_until`] sets the present time.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn reading(&self) -> io::Result<Reading> {
        let mut reading = Reading::default();
        for _ in 0..MAX_TRIES {
            reading = self.read_threads()?;
            // If a thread gives its slot back meanwhile, its totals are added to those of the ended threads.
            let after = self.totals_of_ended()?;
            if after == reading.ended && self.has_owners(&reading.threads)? {
                break;
            }
        }
        Ok(reading)
    }

    fn read_threads(&self) -> io::Result<Reading> {
        let mut reading = Reading {
            ended: self.totals_of_ended()?,
            has_totals: self.header.totals > 0,
            now: self.tick_now(),
            ..Reading::default()
        };
        for index in 0..self.count_slots()? {
            let place = FileSlot::new(&*self.bytes, &self.header, index);
            let slot = place.slot()?;
            if slot.state != LIVE && slot.state != ENDED {
                continue;
            }
            let (totals, open) = self.calls_of(&place, index)?;
            reading.threads.push(LiveThread {
                slot: index,
                generation: slot.generation,
                id: ThreadId(slot.tid.into()),
                name: slot.name(),
                has_ended: slot.state == ENDED,
                chunk: slot.chunk,
                totals,
                open,
            });
        }
        Ok(reading)
    }

    /// The totals and the open calls of a slot. The open calls are read before and after the totals, because a call
    /// that ends in between could be in both or in neither.
    fn calls_of(
        &self,
        place: &FileSlot<'_>,
        index: u32,
    ) -> io::Result<(Vec<FunctionTotals>, Vec<OpenCall>)> {
        let mut before = self.open_of(place)?;
        let mut found = (Vec::new(), Vec::new());
        for _ in 0..MAX_TRIES {
            let totals = totals::read(&*self.bytes, &self.header, index)?;
            let after = self.open_of(place)?;
            let key = |call: &OpenCall| (call.function, call.entered);
            let lasting = before.iter().zip(&after);
            let lasting = lasting.take_while(|(one, other)| key(one) == key(other));
            let lasting = lasting.count();
            found = (totals, after.get(..lasting).unwrap_or_default().to_vec());
            // Other calls are short: they began or ended while the totals were read.
            if lasting == before.len() {
                break;
            }
            before = after;
        }
        Ok(found)
    }

    fn open_of(&self, place: &FileSlot<'_>) -> io::Result<Vec<OpenCall>> {
        let mut bytes = Vec::new();
        place.open_calls(&mut bytes)?;
        let cursor = place.slot()?.cursor;
        let calls = OpenCalls::decode(&bytes, cursor);
        Ok(calls.map_or_else(Vec::new, |calls| calls.calls().collect()))
    }

    fn totals_of_ended(&self) -> io::Result<Vec<FunctionTotals>> {
        totals::read(&*self.bytes, &self.header, self.header.capacity)
    }

    /// Whether the slots still have these owners, and no further slot has one.
    fn has_owners(&self, threads: &[LiveThread]) -> io::Result<bool> {
        let mut owners = 0;
        for index in 0..self.count_slots()? {
            let slot = FileSlot::new(&*self.bytes, &self.header, index).slot()?;
            if slot.state != LIVE && slot.state != ENDED {
                continue;
            }
            let known = threads.get(owners);
            if known.is_none_or(|known| (known.slot, known.generation) != (index, slot.generation))
            {
                return Ok(false);
            }
            owners += 1;
        }
        Ok(owners == threads.len())
    }
}
