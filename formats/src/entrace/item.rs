//! The data of an event that the writer keeps until it can write the entry. An item has 40 bytes, so
//! that the end of a call can be filled in later. Items are in memory and in temporary files, never
//! in a trace.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | time in ns |
//! | 8 | 4 | function's place in the writer's list; type of an event; kind of a note; microseconds |
//! | 12 | 4 | CPU |
//! | 16 | 4 | calls of the thread that it is in |
//! | 20 | 4 | bytes of arguments or payload, which are kept elsewhere |
//! | 24 | 8 | end in ns; records that are missing; seconds |
//! | 32 | 4 | CPU at the end |
//! | 36 | 1 | kind |
//! | 37 | 1 | flags, as in the entry |
//! | 38 | 1 | what is there, see [`has`] |
//! | 39 | 1 | 0 |

use super::facts::flags;

/// Bytes of an item.
pub(super) const SIZE: usize = 40;
/// Offset of the part that the end of a call changes.
pub(super) const END: usize = 24;
/// Offset of the number of bytes that are kept elsewhere.
pub(super) const EXTRA: usize = 20;

/// The bits for the fields that an item has.
pub(super) mod has {
    /// A CPU.
    pub(in super::super) const CPU: u8 = 1;
    /// A CPU at the end.
    pub(in super::super) const EXIT_CPU: u8 = 2;
    /// An end.
    pub(in super::super) const END: u8 = 4;
    /// A time.
    pub(in super::super) const TIME: u8 = 8;
    /// The call was recorded with its arguments.
    pub(in super::super) const ARGUMENTS: u8 = 16;
}

/// The kind of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call, or a lone exit.
    #[default]
    Call,
    /// An event.
    Custom,
    /// An event with a type.
    Typed,
    /// A gap.
    Lost,
    /// A wall-clock time.
    Wall,
    /// A note.
    Note,
}

impl Kind {
    fn decode(byte: u8) -> Kind {
        match byte {
            1 => Kind::Custom,
            2 => Kind::Typed,
            3 => Kind::Lost,
            4 => Kind::Wall,
            5 => Kind::Note,
            _ => Kind::Call,
        }
    }
}

/// An event of a thread, on its way into the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) time: u64,
    pub(super) number: u32,
    pub(super) cpu: u32,
    pub(super) depth: u32,
    pub(super) extra: u32,
    pub(super) end: u64,
    pub(super) exit_cpu: u32,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) has: u8,
}

impl Item {
    /// To bytes.
    pub(super) fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[0..8].copy_from_slice(&self.time.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.cpu.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.depth.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.extra.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.end.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.exit_cpu.to_le_bytes());
        bytes[36..40].copy_from_slice(&[self.kind as u8, self.flags, self.has, 0]);
        bytes
    }

    /// From bytes.
    pub(super) fn decode(bytes: &[u8; SIZE]) -> Item {
        let four = |at: usize| {
            let mut part = [0; 4];
            part.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(part)
        };
        let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
        Item {
            time: eight(0),
            number: four(8),
            cpu: four(12),
            depth: four(16),
            extra: four(20),
            end: eight(24),
            exit_cpu: four(32),
            kind: Kind::decode(bytes[36]),
            flags: bytes[37],
            has: bytes[38],
        }
    }

    /// Whether it has all of these fields.
    pub(super) fn has_all(&self, what: u8) -> bool {
        self.has & what == what
    }

    /// Whether other entries can be inside it.
    pub(super) fn holds_others(&self) -> bool {
        self.kind == Kind::Call && self.flags & flags::LONE_EXIT == 0
    }
}

/// The position of an entry in its thread and tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryPosition {
    pub(super) parent: u32,
    pub(super) thread: u64,
}
