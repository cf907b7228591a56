//! The attributes of a call that are numbers, which are most of a file: their sizes and their bytes.
//! Pure. Each is written as a block of constant size, of which the next one overwrites what is too
//! much: no branch depends on how many bytes a number takes.

use super::bincode::{self, size_of_u64, zigzag};
use super::container::Version;
use super::facts::flags;
use super::item::{Item, has};

/// The kind of a value that is unsigned.
pub(super) const U64: u8 = 4;
/// The kind of a value that is signed.
const I64: u8 = 5;

/// Attributes of a call that are no arguments.
const MOST: usize = 7;
/// Bytes that are written for a name, at least as many as any has.
const BLOCK: usize = 16;
/// Bytes that all of them take at most: two counts, and what is written too much at the end.
pub(super) const ROOM: usize = 2 + MOST * (BLOCK + bincode::MOST_OF_U64) + BLOCK;

/// A name with its length in front, and behind it the kind of its value.
struct Name {
    block: [u8; BLOCK],
    size: usize,
}

impl Name {
    const fn new(name: &str, kind: u8) -> Name {
        let name = name.as_bytes();
        assert!(name.len() + 2 <= BLOCK);
        let mut block = [0; BLOCK];
        block[0] = name.len() as u8;
        let mut at = 0;
        while at < name.len() {
            block[1 + at] = name[at];
            at += 1;
        }
        block[1 + at] = kind;
        let size = name.len() + 2;
        Name { block, size }
    }
}

static CPU: Name = Name::new("cpu", U64);
static DURATION: Name = Name::new("duration_ns", U64);
static BACKWARDS: Name = Name::new("duration_ns", I64);
static EXIT_CPU: Name = Name::new("exit_cpu", U64);
static FLAGS: Name = Name::new("flags", U64);
static FUNCTION: Name = Name::new("function", U64);
static START: Name = Name::new("start_ns", U64);
static THREAD: Name = Name::new("tid", U64);

/// A call, as far as it is numbers.
pub(super) struct Numbers<'a> {
    pub(super) item: &'a Item,
    /// The function's number, where the metadata do not tell it.
    pub(super) function: Option<u32>,
    pub(super) thread: u64,
    /// None are known.
    pub(super) no_arguments: bool,
}

impl Numbers<'_> {
    /// Every attribute, sorted by name.
    #[inline(always)]
    fn each(&self, mut take: impl FnMut(&'static Name, u64)) {
        let item = self.item;
        if item.has(has::CPU) {
            take(&CPU, item.cpu.into());
        }
        if item.has(has::END) {
            match item.end.checked_sub(item.time) {
                Some(duration) => take(&DURATION, duration),
                None => {
                    let back = i64::try_from(item.time - item.end).unwrap_or(i64::MAX);
                    take(&BACKWARDS, zigzag(-back));
                }
            }
        }
        if item.has(has::EXIT_CPU) {
            take(&EXIT_CPU, item.exit_cpu.into());
        }
        let mut flags = item.flags;
        if item.has(has::ARGUMENTS) && self.no_arguments {
            flags |= flags::NO_ARGUMENTS;
        }
        if flags != 0 {
            take(&FLAGS, flags.into());
        }
        if let Some(function) = self.function {
            take(&FUNCTION, function.into());
        }
        take(&START, item.time);
        take(&THREAD, self.thread);
    }

    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> u8 {
        let mut count = 0;
        self.each(|_, _| count += 1);
        count
    }

    /// Bytes that [`put`](Self::put) leaves.
    #[inline]
    pub(super) fn size(&self, version: Version) -> usize {
        let counts = match version {
            Version::V1 => 1,
            Version::V2 => 2,
        };
        let mut size = counts;
        self.each(|name, value| size += name.size + size_of_u64(value));
        size
    }

    /// Writes them, as the attributes of an entry that has no others, over the [`ROOM`] last bytes.
    #[inline]
    pub(super) fn put(&self, out: &mut Vec<u8>, version: Version) {
        let count = self.count();
        over_last(out, |room| {
            room.byte(count);
            match version {
                Version::V1 => self.pairs(room),
                Version::V2 => {
                    self.names(room);
                    room.byte(count);
                    self.values(room);
                }
            }
        });
    }

    /// Each name with its value, as version 1 has them.
    #[inline]
    pub(super) fn pairs(&self, room: &mut Room<'_>) {
        self.each(|name, value| {
            room.block(&name.block, name.size);
            room.number(value);
        });
    }

    /// The names, which come first in version 2.
    #[inline]
    pub(super) fn names(&self, room: &mut Room<'_>) {
        self.each(|name, _| room.block(&name.block, name.size - 1));
    }

    /// The values.
    #[inline]
    pub(super) fn values(&self, room: &mut Room<'_>) {
        self.each(|name, value| {
            room.byte(name.block[name.size - 1]);
            room.number(value);
        });
    }
}

/// The place that the numbers of one call are written to.
pub(super) struct Room<'a> {
    bytes: &'a mut [u8; ROOM],
    at: usize,
}

/// Appends what `put` writes: the numbers of one call at most.
pub(super) fn with_room(out: &mut Vec<u8>, put: impl FnOnce(&mut Room<'_>)) {
    out.extend_from_slice(&[0; ROOM]);
    over_last(out, put);
}

/// The same, but instead of the [`ROOM`] last bytes.
#[inline]
fn over_last(out: &mut Vec<u8>, put: impl FnOnce(&mut Room<'_>)) {
    let size = out.len();
    if let Some(bytes) = out.last_chunk_mut() {
        let mut room = Room { bytes, at: 0 };
        put(&mut room);
        let end = size - ROOM + room.at;
        out.truncate(end);
    }
}

impl Room<'_> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.at] = byte;
        self.at += 1;
    }

    /// The first `size` bytes of a block.
    #[inline]
    fn block(&mut self, block: &[u8; BLOCK], size: usize) {
        self.bytes[self.at..self.at + BLOCK].copy_from_slice(block);
        self.at += size;
    }

    #[inline]
    fn number(&mut self, value: u64) {
        let (first, size) = bincode::shortest(value);
        self.bytes[self.at] = first;
        self.bytes[self.at + 1..self.at + bincode::MOST_OF_U64]
            .copy_from_slice(&value.to_le_bytes());
        self.at += size;
    }
}
