//! The bytes of what a ring file holds of its threads' states ([`Schedule`]).
//!
//! Source: this project. Little-endian. The header says where the part is and how large it is. Entries go round: the
//! entry with number n is at place (n - 1) mod the number of places.
//!
//! | part | offset | field |
//! | --- | --- | --- |
//! | head, 64 bytes | 0 | u64: number of the newest entry; 0 = none |
//! | entry, 32 bytes | 0 | u64: its number, from 1; 0 = it is being written |
//! | | 8 | u64: ns of CLOCK_MONOTONIC_RAW |
//! | | 16, 20, 22, 23 | u32 thread, u16 CPU, u8 kind, zero |
//! | | 24 | u64: address of a sample, or value of an account |
//!
//! Files that were loaded into the program lie elsewhere, and never change. The header says where.
//!
//! One thread writes at a time. It makes an entry's number 0, writes the rest, and then the numbers. A
//! *watermark* is an entry that says: all that happened before its time has been written. Entries before the first
//! watermark and behind the last one are not used, because others of the same time may be missing.

use crate::model::{Account, Cause, CpuId, Sample, Schedule, State, Switch, ThreadId, Ticks};

/// Bytes of the head.
pub const HEAD_SIZE: usize = 64;
/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 32;
/// The largest part that is read.
pub const MAX_BYTES: usize = 64 << 20;

/// The most bytes of the files that were loaded into the program.
pub const MODULES_BYTES: usize = 64 << 10;

/// The state is not known from here on.
const UNKNOWN_STATE: u8 = 3;
/// The causes of samples follow.
const SAMPLES: u8 = 8;
/// The three values of an account: they follow each other.
const ACCOUNTS: u8 = 16;
/// All that happened before has been written.
const WATERMARK: u8 = 32;

/// An entry without its number: its time in ns, what stands at byte 16, and the last word.
pub type Words = [u64; 3];

/// The content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A context switch.
    Switch(Switch),
    /// A sample.
    Sample(Sample),
    /// A part of an account: which, and its value.
    Account(Ticks, ThreadId, u8, u64),
    /// All that happened before this tick has been written.
    Watermark(Ticks),
}

fn words(ns: u64, thread: u64, cpu: u32, kind: u8, value: u64) -> Words {
    let place = u64::from(thread as u32) | u64::from(cpu as u16) << 32 | u64::from(kind) << 48;
    [ns, place, value]
}

/// A context switch. Thread 0: all threads. `to`: the new state; `None`: not known. Async-signal-safe.
#[must_use]
pub fn switch(ns: u64, thread: u32, cpu: u32, to: Option<State>) -> Words {
    let kind = to.map_or(UNKNOWN_STATE, |state| state as u8);
    words(ns, thread.into(), cpu, kind, 0)
}

/// A sample. Async-signal-safe.
#[must_use]
pub fn sample(ns: u64, thread: u32, cpu: u32, cause: Cause, address: u64) -> Words {
    words(ns, thread.into(), cpu, SAMPLES + cause as u8, address)
}

/// One of the three values of an account, from 0: running time and run delay in ns, and how often the thread got a CPU.
/// Async-signal-safe.
#[must_use]
pub fn account(ns: u64, thread: u32, nth: u8, value: u64) -> Words {
    words(ns, thread.into(), 0, ACCOUNTS + nth, value)
}

/// All that happened before has been written. Async-signal-safe.
#[must_use]
pub fn watermark(ns: u64) -> Words {
    words(ns, 0, 0, WATERMARK, 0)
}

/// A moment, and the rate of the trace's clock: how times of entries become ticks. All entries of a ring have the same,
/// so that their order stays.
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    /// Ticks of the trace's clock.
    pub ticks: u64,
    /// CLOCK_MONOTONIC_RAW at that moment.
    pub ns: u64,
    /// Ticks per second.
    pub frequency: u64,
}

impl Anchor {
    /// The tick at that time. Async-signal-safe.
    #[must_use]
    pub fn tick(&self, ns: u64) -> Ticks {
        let since = i128::from(ns) - i128::from(self.ns);
        let ticks = i128::from(self.ticks) + since * i128::from(self.frequency) / 1_000_000_000;
        Ticks(ticks.clamp(0, u64::MAX.into()) as u64)
    }
}

impl Entry {
    /// Decodes an entry. `None`: its kind is unknown. Async-signal-safe.
    #[must_use]
    pub fn decode([ns, place, value]: Words, anchor: &Anchor) -> Option<Entry> {
        let time = anchor.tick(ns);
        let thread = ThreadId(place & 0xffff_ffff);
        let cpu = CpuId((place >> 32 & 0xffff) as u32);
        let kind = (place >> 48) as u8;
        Some(match kind {
            0..=UNKNOWN_STATE => Entry::Switch(Switch {
                time,
                thread,
                cpu,
                to: State::from_number(kind),
            }),
            WATERMARK => Entry::Watermark(time),
            _ if kind >= ACCOUNTS => match kind - ACCOUNTS {
                part @ 0..=2 => Entry::Account(time, thread, part, value),
                _ => return None,
            },
            _ => Entry::Sample(Sample {
                time,
                thread,
                cpu,
                cause: Cause::from_number(kind.wrapping_sub(SAMPLES))?,
                address: value,
            }),
        })
    }
}

/// All threads are unknown from here on.
fn unknown(time: Ticks) -> Switch {
    Switch {
        time,
        thread: ThreadId(0),
        cpu: CpuId(0),
        to: None,
    }
}

/// The schedule from entries in the order of their numbers. It begins at the first watermark and ends at the last one.
#[must_use]
pub fn collect(entries: impl Iterator<Item = Entry>) -> Schedule {
    let mut schedule = Schedule::default();
    // The entries behind the newest watermark.
    let mut after = Schedule::default();
    let mut account: Option<Account> = None;
    let mut newest = None;
    for entry in entries {
        match entry {
            Entry::Watermark(time) => {
                if newest.replace(time).is_none() {
                    after = Schedule::default();
                    schedule.switches.push(unknown(time));
                }
                schedule.append(core::mem::take(&mut after));
            }
            Entry::Switch(of) => after.switches.push(of),
            Entry::Sample(of) => after.samples.push(of),
            Entry::Account(time, thread, 0, running_ns) => {
                account = Some(Account {
                    time,
                    thread,
                    running_ns,
                    run_delay_ns: 0,
                    times: 0,
                });
            }
            Entry::Account(time, thread, part, value) => {
                let Some(of) = account
                    .as_mut()
                    .filter(|of| (of.time, of.thread) == (time, thread))
                else {
                    continue;
                };
                if part == 1 {
                    of.run_delay_ns = value;
                } else {
                    of.times = value;
                    after.accounts.extend(account.take());
                }
            }
        }
    }
    if let Some(newest) = newest.filter(|_| !schedule.switches.is_empty()) {
        schedule.switches.push(unknown(newest));
    }
    // Without a switch, the watermarks have no meaning.
    if schedule.switches.iter().all(|of| of.to.is_none()) {
        schedule.switches.clear();
    }
    schedule
}

/// The samples among entries, in the order of their numbers. For a crash: it keeps nothing. Async-signal-safe.
pub fn samples(entries: impl Iterator<Item = Entry>) -> impl Iterator<Item = Sample> {
    entries.filter_map(|entry| match entry {
        Entry::Sample(of) => Some(of),
        _ => None,
    })
}

/// The context switches among entries in the order of their numbers, from the first watermark to the last one. As
/// [`collect`], for a crash: it keeps nothing. Async-signal-safe.
pub fn switches(entries: impl Iterator<Item = Entry> + Clone) -> impl Iterator<Item = Switch> {
    let is_watermark = |entry: &Entry| matches!(entry, Entry::Watermark(_));
    let first = entries.clone().position(|entry| is_watermark(&entry));
    let numbered = entries.clone().enumerate();
    let last = numbered
        .filter(|(_, entry)| is_watermark(entry))
        .map(|(at, _)| at)
        .last();
    let (first, last) = (first.unwrap_or(usize::MAX), last.unwrap_or(0));
    let between = entries
        .enumerate()
        .filter(move |&(at, _)| at >= first && at <= last);
    between.filter_map(move |(at, entry)| match entry {
        Entry::Switch(of) => Some(of),
        Entry::Watermark(time) => (at == first || at == last).then_some(unknown(time)),
        Entry::Sample(_) | Entry::Account(..) => None,
    })
}

/// The place of the entry with that number, from 1, in a part of `places` places.
#[must_use]
pub fn place(number: u64, places: usize) -> usize {
    (number.saturating_sub(1) % (places.max(1) as u64)) as usize
}

/// The number of entries in a part of `bytes` bytes.
#[must_use]
pub const fn places(bytes: usize) -> usize {
    bytes.saturating_sub(HEAD_SIZE) / ENTRY_SIZE
}

#[cfg(feature = "read")]
/// Decodes a part. `bytes` and `again` are two copies of it. An entry that differs between them is left out.
#[must_use]
pub fn decode(bytes: &[u8], again: &[u8], anchor: &Anchor) -> Schedule {
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    };
    let places = places(bytes.len().min(again.len()));
    // Entries that were written between the two copies are not used.
    let newest = word(bytes, 0);
    let oldest = newest.saturating_sub(places as u64).saturating_add(1);
    let entry = |number: u64| {
        let at = HEAD_SIZE + place(number, places) * ENTRY_SIZE;
        let words = bytes.get(at..at + ENTRY_SIZE)?;
        if Some(words) != again.get(at..at + ENTRY_SIZE) || word(words, 0) != number {
            return None;
        }
        Entry::decode([word(words, 8), word(words, 16), word(words, 24)], anchor)
    };
    match places {
        0 => Schedule::default(),
        _ => collect((oldest..=newest).filter_map(entry)),
    }
}

#[cfg(all(test, feature = "read"))]
mod tests {
    use super::*;

    /// Two ticks a ns, from tick 100 on.
    const ANCHOR: Anchor = Anchor {
        ticks: 100,
        ns: 1_000,
        frequency: 2_000_000_000,
    };

    fn running(ns: u64, thread: u32) -> Words {
        switch(ns, thread, 1, Some(State::Running))
    }

    /// A part with `places` places that holds these entries, numbered from `first` on.
    fn part(places: usize, first: u64, entries: &[Words]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_SIZE + places * ENTRY_SIZE];
        for (number, &[ns, what, value]) in (first..).zip(entries) {
            let at = HEAD_SIZE + place(number, places) * ENTRY_SIZE;
            for (nth, word) in [number, ns, what, value].into_iter().enumerate() {
                bytes[at + 8 * nth..][..8].copy_from_slice(&word.to_le_bytes());
            }
            bytes[..8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn entries_typed_by_hand() {
        assert_eq!(running(0x0102, 7), [0x0102, 7 | 1 << 32, 0]);
        let sample = Entry::Sample(Sample {
            time: Ticks(110),
            thread: ThreadId(9),
            cpu: CpuId(2),
            cause: Cause::PageFault,
            address: 0xdead,
        });
        let words = [1_005, 9 | 2 << 32 | 9 << 48, 0xdead];
        assert_eq!(Entry::decode(words, &ANCHOR), Some(sample));
        let mark = Entry::decode(watermark(990), &ANCHOR);
        assert_eq!(mark, Some(Entry::Watermark(Ticks(80))));
        let times = Entry::decode(account(1_000, 1, 2, 77), &ANCHOR);
        let wanted = Entry::Account(Ticks(100), ThreadId(1), 2, 77);
        assert_eq!(times, Some(wanted));
        for kind in [4, 7, 10, 19, 33, 255] {
            assert_eq!(Entry::decode([0, kind << 48, 0], &ANCHOR), None);
        }
        // Before the clock's zero, and times that the file can't have.
        assert_eq!(ANCHOR.tick(0), Ticks(0));
        assert_eq!(ANCHOR.tick(u64::MAX), Ticks(u64::MAX));
    }

    #[test]
    fn what_lies_between_the_watermarks_is_used() {
        let entries = [
            switch(1_001, 1, 1, Some(State::Waiting)),
            watermark(1_010),
            running(1_011, 1),
            account(1_012, 1, 0, 100),
            account(1_012, 1, 1, 20),
            account(1_012, 1, 2, 3),
            watermark(1_020),
            switch(1_021, 1, 1, Some(State::Preempted)),
        ];
        let bytes = part(100, 1, &entries);
        let found = decode(&bytes, &bytes, &ANCHOR);
        let states: Vec<_> = found.switches.iter().map(|of| (of.time.0, of.to)).collect();
        let decoded = entries
            .into_iter()
            .filter_map(|words| Entry::decode(words, &ANCHOR));
        assert!(switches(decoded).eq(found.switches.iter().copied()));
        assert_eq!(
            states,
            [(120, None), (122, Some(State::Running)), (140, None)]
        );
        let account = found.accounts[0];
        assert_eq!(
            (account.running_ns, account.run_delay_ns, account.times),
            (100, 20, 3)
        );
        // The newest entries have overwritten the first watermark, and numbers go on.
        let bytes = part(5, 1_000, &entries);
        assert!(decode(&bytes, &bytes, &ANCHOR).switches.is_empty());
        assert!(decode(&bytes[..70], &bytes, &ANCHOR).is_empty());
    }

    #[test]
    fn schedules_that_change_are_left_out() {
        let entries = [
            watermark(1_010),
            running(1_011, 1),
            running(1_012, 2),
            watermark(1_020),
        ];
        let once = part(8, 1, &entries);
        let mut again = once.clone();
        again[HEAD_SIZE + ENTRY_SIZE] = 0;
        let found = decode(&once, &again, &ANCHOR);
        assert_eq!(found.switches[1].thread, ThreadId(2));
        let mut hostile = once.clone();
        hostile[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(decode(&hostile, &hostile, &ANCHOR).is_empty());
    }
}
