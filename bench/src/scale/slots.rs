//! Which thread has which slot, by the ring file's own tables: read as any reader of a live ring reads them.
//! It must never write to the file.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;

use fdr_formats::ring::layout;

use super::process;

/// Where the threads' slots and regions are, by the ring file's own tables.
pub(super) struct Slots {
    /// Of each thread: the number of its slot.
    numbers: Vec<u64>,
    region_bytes: u64,
}

impl Slots {
    /// Of the threads with these ids, in this order.
    ///
    /// # Errors
    ///
    /// If there is no ring file, or a thread has no slot in it.
    pub(super) fn find(ids: &[u32]) -> Result<Slots, Box<dyn Error>> {
        let path = process::ring_file()?;
        let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut head = [0; layout::HEADER_SIZE];
        file.read_exact_at(&mut head, 0)?;
        let head = layout::decode_header(&head).ok_or("the ring file has no head")?;
        let mut owners = Vec::new();
        for number in 0..u64::from(head.made) {
            let mut slot = [0; layout::SLOT_SIZE];
            file.read_exact_at(&mut slot, head.slots + number * head.slot_stride)?;
            let slot = layout::decode_slot(&slot).ok_or("the ring file has a bad slot")?;
            owners.push((slot.state == layout::LIVE).then_some(slot.thread));
        }
        let number = |id: &u32| owners.iter().position(|owner| *owner == Some(*id));
        let numbers: Option<Vec<u64>> = ids.iter().map(|id| Some(number(id)? as u64)).collect();
        Ok(Slots {
            numbers: numbers.ok_or("a thread has no slot: set a larger FDR_MEMORY")?,
            region_bytes: head.region_size,
        })
    }

    /// Slots from one thread's to another's, and bytes from region to region.
    pub(super) fn apart(&self, one: usize, other: usize) -> (u64, u64) {
        let apart = self.numbers[one].abs_diff(self.numbers[other]);
        (apart, apart * self.region_bytes)
    }

    fn others(&self, than: usize) -> impl Iterator<Item = usize> {
        (0..self.numbers.len()).filter(move |&other| other != than)
    }

    /// The thread whose slot is nearest.
    pub(super) fn nearest(&self, to: usize) -> usize {
        let nearest = self.others(to).min_by_key(|&other| self.apart(to, other));
        nearest.unwrap_or(to)
    }

    /// The thread whose slot is farthest.
    pub(super) fn farthest(&self, from: usize) -> usize {
        let farthest = self
            .others(from)
            .max_by_key(|&other| self.apart(from, other));
        farthest.unwrap_or(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_from_those_far_away() {
        let slots = Slots {
            numbers: vec![4, 2, 0, 3, 9],
            region_bytes: 10,
        };
        assert_eq!((slots.nearest(1), slots.farthest(1)), (3, 4));
        assert_eq!(slots.apart(1, 4), (7, 70));
    }
}
