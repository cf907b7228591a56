//! On which CPU a thread was, as its records say it. Memory is bounded: if there are too many stays on a CPU, adjacent
//! stays are joined, and the joined stay has the number of changes.

/// Stays that a page keeps of all threads together, and those that it keeps of a thread in any case.
const MAX_STAYS: usize = 1_000_000;
const MIN_STAYS: usize = 1000;

/// A thread on a CPU, until its next stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuStay {
    pub(super) from: u64,
    pub(super) cpu: u32,
    /// How often it came to another CPU, up to its coming to this one.
    pub(super) changes: u32,
}

/// The stays of a thread, in order of time.
#[derive(Debug)]
pub(super) struct Cpus {
    stays: Vec<CpuStay>,
    most: usize,
    coarse: u64,
}

/// Joins stays that begin less than `ticks` ticks after the first one of their group. The last stay of a group replaces
/// the others.
fn thin(stays: impl Iterator<Item = CpuStay>, ticks: u64) -> Vec<CpuStay> {
    let mut kept: Vec<CpuStay> = Vec::new();
    // Where the stretch of the last one begins.
    let mut begin = 0;
    for stay in stays {
        match kept.last_mut() {
            Some(last) if stay.from.saturating_sub(begin) < ticks => {
                let changes = last.changes.saturating_add(stay.changes);
                *last = CpuStay { changes, ..stay };
            }
            _ => {
                begin = stay.from;
                kept.push(stay);
            }
        }
    }
    kept
}

impl Cpus {
    /// The stays of one thread, in a trace of `threads` threads, which share the memory.
    pub(super) fn new(threads: usize) -> Cpus {
        Cpus {
            stays: Vec::new(),
            most: (MAX_STAYS / threads.max(1)).max(MIN_STAYS),
            coarse: 0,
        }
    }

    /// The thread is on that CPU from then on.
    pub(super) fn add(&mut self, time: u64, cpu: u32) {
        let last = self.stays.last().copied();
        if last.is_some_and(|last| last.cpu == cpu) {
            return;
        }
        self.stays.push(CpuStay {
            // The clock may have gone back.
            from: last.map_or(time, |last| time.max(last.from)),
            cpu,
            changes: u32::from(last.is_some()),
        });
        while self.stays.len() > self.most {
            let first = self.stays.first().map_or(0, |first| first.from);
            let share = time.saturating_sub(first) / self.most as u64;
            self.coarse = self.coarse.saturating_mul(2).max(share).max(1);
            self.stays = thin(self.stays.iter().copied(), self.coarse);
        }
    }

    /// Whether any record names a CPU.
    pub(super) fn has_records(&self) -> bool {
        !self.stays.is_empty()
    }

    /// The stays in a stretch of time, and the stay before it. Stays within one pixel are joined.
    pub(super) fn between(&self, from: u64, to: u64, pixel: u64) -> Vec<CpuStay> {
        let first = self.stays.partition_point(|stay| stay.from < from);
        let stays = self.stays.get(first.saturating_sub(1)..).unwrap_or(&[]);
        let stays = stays.iter().copied();
        thin(stays.take_while(|stay| stay.from <= to), pixel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_within_a_pixel_are_counted() {
        let mut cpus = Cpus::new(1);
        for (time, cpu) in [(0, 3), (5, 3), (10, 1), (12, 2), (50, 3), (60, 3)] {
            cpus.add(time, cpu);
        }
        let stays = |from, to, pixel| {
            let stays = cpus.between(from, to, pixel);
            let each = stays.iter();
            each.map(|stay| (stay.from, stay.cpu, stay.changes))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            stays(0, 99, 0),
            [(0, 3, 0), (10, 1, 1), (12, 2, 1), (50, 3, 1)]
        );
        assert_eq!(stays(0, 99, 5), [(0, 3, 0), (12, 2, 2), (50, 3, 1)]);
        assert_eq!(stays(40, 45, 0), [(12, 2, 1)]);
    }

    #[test]
    fn memory_is_bounded_and_no_change_is_lost() {
        let mut cpus = Cpus::new(10_000);
        (0..50_000).for_each(|nth| cpus.add(nth * 3, nth as u32 % 7));
        assert!(cpus.stays.len() <= MIN_STAYS && cpus.stays.len() > 100);
        let changes = cpus.stays.iter().map(|stay| u64::from(stay.changes));
        assert_eq!(changes.sum::<u64>(), 49_999);
    }
}
