//! Writes the packets of one stream file: where a packet begins and ends, its head, and the bytes that are not in the
//! file yet.
//!
//! Times are ns of the source's own clock, with their distance from 1970. They count both the ns since 1970 and the
//! clock's own ns in a signed 64-bit number.

use super::record::{self, HEAD_SIZE, Head};
use crate::model::{Clock, Nanos, Ticks};
use crate::scale::Scale;

/// A packet is closed when it is longer than this, in bytes.
const PACKET: usize = 32 * 1024;
/// Closed packets are handed over when they are longer than this, in bytes.
const HOLD: usize = 64 * 1024;

/// One stream file under way.
#[derive(Debug, Default)]
pub(super) struct Packets {
    uuid: [u8; 16],
    stream: u32,
    instance: u64,
    buffer: Vec<u8>,
    /// The open packet: its beginning in `buffer`, and its head as far as it is known.
    open: Option<(usize, Head)>,
    sequence: u64,
    last: Option<u64>,
    /// The number of lost records that the last packet stated.
    stated_lost: u64,
}

impl Packets {
    pub(super) fn new(uuid: [u8; 16], stream: u32, instance: u64) -> Packets {
        Packets {
            uuid,
            stream,
            instance,
            ..Packets::default()
        }
    }

    /// Time of the last event, or of a later end of a packet.
    pub(super) fn last(&self) -> Option<u64> {
        self.last
    }

    /// The number of lost records that the last packet stated.
    pub(super) fn stated_lost(&self) -> u64 {
        self.stated_lost
    }

    /// Whether an event can be added without a new packet in front of it.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        let room = |(start, _): &(usize, Head)| self.buffer.len() - start < PACKET;
        self.open.as_ref().is_some_and(room)
    }

    /// Closes the open packet, if there is one, and begins another. `time` is not before `last`. An
    /// event must follow, because Trace Compass ends a stream at a packet without events.
    pub(super) fn begin(&mut self, time: u64, cpu: u32, cpu_seen: bool, discarded: u64) {
        if self.sequence == 0 && discarded > 0 {
            // babeltrace2 counts from the first packet on, so a packet without losses must come first.
            self.begin(time, cpu, false, 0);
        }
        self.close(time);
        let head = Head {
            uuid: self.uuid,
            stream: self.stream,
            instance: self.instance,
            begin: time,
            sequence: self.sequence,
            discarded,
            cpu,
            cpu_seen,
            ..Head::default()
        };
        if self.sequence > 0 && self.buffer.len() >= PACKET / 2 {
            // The stream is not short. The buffer gets its final size at once, so it is not copied again
            // and again.
            self.buffer.reserve(HOLD);
        }
        self.open = Some((self.buffer.len(), head));
        self.buffer.extend([0; HEAD_SIZE]);
        self.sequence += 1;
        self.stated_lost = discarded;
    }

    /// The place for an event of that time, which is not before `last`. A packet is open.
    #[inline]
    pub(super) fn event(&mut self, time: u64) -> &mut Vec<u8> {
        debug_assert!(self.open.is_some() && self.last.is_none_or(|last| last <= time));
        self.last = Some(time);
        &mut self.buffer
    }

    /// Completes the open packet, if there is one. The next event is not before `time`, which is not
    /// before `last`.
    pub(super) fn close(&mut self, time: u64) {
        debug_assert!(self.last.is_none_or(|last| last <= time));
        self.complete();
        self.last = Some(time);
    }

    fn complete(&mut self) {
        let Some((start, mut head)) = self.open.take() else {
            return;
        };
        head.end = self.last.unwrap_or(head.begin);
        head.size = (self.buffer.len() - start) as u64;
        self.buffer[start..start + HEAD_SIZE].copy_from_slice(&record::head(&head));
    }

    /// Whether the closed packets should be handed over.
    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() >= HOLD
    }

    /// The packets that are not in the file yet. No packet is open.
    pub(super) fn ready(&mut self) -> &[u8] {
        self.complete();
        &self.buffer
    }

    /// They are in the file.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.buffer.shrink_to(2 * HOLD);
    }
}

/// The latest time that readers take; babeltrace2 refuses any later one.
const LATEST: u64 = i64::MAX as u64 - 1;
/// The largest distance of a clock's zero from 1970 that babeltrace2 takes, in whole seconds.
const FARTHEST: i64 = i64::MAX - 2_000_000_000;

/// From ticks to ns.
#[derive(Clone, Debug)]
pub(super) struct Times {
    scale: Scale,
    /// Ns of Unix time at 0 ns of the trace's clock; 0 without an anchor.
    pub(super) offset: i64,
    /// The anchor, in ns of the trace's clock and in Unix ns.
    pub(super) anchor: Option<(u64, u64)>,
    limit: u64,
    /// Times beyond the limit.
    pub(super) late: u64,
}

impl Times {
    pub(super) fn new(clock: &Clock) -> Times {
        let anchor = clock.anchor.map(|(tick, unix)| (clock.nanos(tick).0, unix));
        let offset = anchor.map_or(0, |(here, unix)| i128::from(unix) - i128::from(here));
        let offset = i64::try_from(offset).ok();
        let near = |offset: &i64| (-FARTHEST..=FARTHEST).contains(offset);
        let offset = offset.filter(near).unwrap_or(0);
        Times {
            scale: Scale::new(clock.frequency),
            offset,
            anchor,
            limit: LATEST.saturating_sub(offset.max(0) as u64),
            late: 0,
        }
    }

    /// That tick in ns.
    #[inline]
    pub(super) fn nanos(&mut self, tick: Ticks) -> u64 {
        let Nanos(nanos) = self.scale.nanos(tick);
        if nanos > self.limit {
            self.late += 1;
            return self.limit;
        }
        nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
    }

    #[test]
    fn packets_follow_one_another_and_say_their_sizes() {
        let mut packets = Packets::new([7; 16], 0, 42);
        packets.begin(10, 3, true, 0);
        packets.event(11).extend([1; 20]);
        packets.event(15).extend([2; 20]);
        packets.begin(15, 4, true, 9);
        let bytes = packets.ready().to_vec();
        assert_eq!(bytes.len(), 2 * HEAD_SIZE + 40);
        let second = &bytes[HEAD_SIZE + 40..];
        let times = [
            word(&bytes, 32),
            word(&bytes, 40),
            word(second, 32),
            word(second, 40),
        ];
        assert_eq!(times, [10, 15, 15, 15]);
        let bits = (HEAD_SIZE as u64 + 40) * 8;
        assert_eq!([word(&bytes, 48), word(&bytes, 56)], [bits, bits]);
        assert_eq!([word(second, 64), word(second, 72)], [1, 9]);
        packets.clear();
        packets.begin(20, 4, false, 9);
        assert_eq!(word(packets.ready(), 64), 2, "numbers go on");
    }

    #[test]
    fn long_packets_have_no_room() {
        let mut packets = Packets::new([0; 16], 0, 1);
        assert!(!packets.has_room());
        packets.begin(0, 0, false, 0);
        packets.event(0).extend([0; PACKET]);
        assert!(!packets.has_room() && !packets.is_full());
        packets.begin(0, 0, false, 0);
        packets.event(0).extend([0; PACKET]);
        assert!(packets.is_full());
    }

    #[test]
    fn an_anchor_gives_offset_and_limit() {
        let anchor = Some((Ticks(3_000_000_000), 1_700_000_000_000_000_001));
        let clock = Clock {
            frequency: 3_000_000_000,
            anchor,
            ..Clock::default()
        };
        let mut times = Times::new(&clock);
        assert_eq!(times.offset, 1_699_999_999_000_000_001);
        let most = LATEST - 1_699_999_999_000_000_001;
        assert_eq!(times.nanos(Ticks(u64::MAX)), 6_148_914_691_236_517_205);
        assert_eq!((times.limit, times.late), (most, 0));
        let late = Clock {
            frequency: 1_000_000_000,
            ..clock
        };
        let mut times = Times::new(&late);
        assert_eq!(times.nanos(Ticks(u64::MAX)), times.limit);
        assert_eq!(times.late, 1);
    }
}
