//! The tables in front of an ET's entries: the place and the children of each entry. Tables are read number by number.
//!
//! Other readers check none of this. A sum over all (parent, child) pairs shows whether the pool is right, in any
//! order and without memory. Only if the pool is wrong, a search with some memory finds the mistake.

use std::io;

use super::bincode::{Bad, Input};
use super::record::{HEAD_SIZE, ROOT, Version, decode_entry, encode_entry};
use crate::bytes::{ReadAt, Window};

const WINDOW: usize = 64 * 1024;

/// The places of the tables, and the sum of the pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tables {
    /// Place of the first offset.
    pub(super) offsets: u64,
    /// The number of offsets: one for each entry.
    pub(super) count: u64,
    /// Place of the pool.
    pub(super) pool: u64,
    /// Where the entries begin: the place that the offsets count from.
    pub(super) entries: u64,
    /// There are bytes in front of the first entry, so there may be some between others. ENTRACE's own
    /// conversion of an `IETPrefix` leaves the lengths there.
    pub(super) has_gaps: bool,
    /// The sum over all (parent, child) of the pool.
    pub(super) sum: u64,
    /// The place of the first number that can't be right, and the fault.
    pub(super) wrong: Option<(u64, &'static str)>,
}

/// Adds a child to a sum. The order does not matter.
pub(super) fn add(sum: &mut u64, parent: u64, child: u64) {
    let mut mixed = (parent << 32 | child).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    *sum = sum.wrapping_add(mixed ^ mixed >> 31);
}

/// Numbers, one after the other.
pub(super) struct Numbers<'a> {
    window: Window<'a>,
    pub(super) at: u64,
    end: u64,
}

impl<'a> Numbers<'a> {
    /// From `at` on.
    pub(super) fn new(bytes: &'a dyn ReadAt, at: u64) -> Numbers<'a> {
        let end = bytes.size();
        let window = Window::new(bytes, WINDOW);
        Numbers { window, at, end }
    }

    fn take<T>(&mut self, read: impl Fn(&mut Input<'_>) -> Result<T, Bad>) -> NumberResult<T> {
        let mut input = Input::new(self.window.at(self.at, 9, self.end)?);
        let value = read(&mut input);
        if value.is_ok() {
            self.at += input.consumed() as u64;
        }
        Ok(value)
    }

    /// The next one.
    pub(super) fn u64(&mut self) -> NumberResult<u64> {
        self.take(|input| input.u64())
    }

    fn u32(&mut self) -> NumberResult<u32> {
        self.take(|input| input.u32())
    }
}

/// A number, or the reason why it can't be decoded. The outer error is an error of the file.
type NumberResult<T> = io::Result<Result<T, Bad>>;

macro_rules! take {
    ($number:expr) => {
        match $number? {
            Ok(value) => value,
            Err(bad) => return Ok(Err(bad)),
        }
    };
}

/// Goes through the tables. Returns them, and the first offset.
fn read(numbers: &mut Numbers<'_>) -> NumberResult<(Tables, u64)> {
    let mut tables = Tables::default();
    let mut wrong = None;
    let mut tell = |is_wrong: bool, at: u64, what: &'static str| {
        if is_wrong && wrong.is_none() {
            wrong = Some((at, what));
        }
    };
    tables.count = take!(numbers.u64());
    tables.offsets = numbers.at;
    let (mut first, mut last) = (0, None);
    for _ in 0..tables.count {
        let at = numbers.at;
        let offset = take!(numbers.u64());
        match last.replace(offset) {
            None => first = offset,
            Some(before) => {
                let what = "an offset is not greater than the one before";
                tell(before >= offset, at, what);
            }
        }
    }
    tables.pool = numbers.at;
    let lists = take!(numbers.u64());
    let what = "there are more lists of children than offsets, or fewer";
    tell(lists != tables.count, tables.pool, what);
    for parent in 0..lists {
        let mut last = None;
        for _ in 0..take!(numbers.u64()) {
            let at = numbers.at;
            let child = take!(numbers.u32());
            add(&mut tables.sum, parent, child.into());
            let what = "the children of an entry are not in ascending order";
            let before = last.replace(child);
            tell(before.is_some_and(|before| before >= child), at, what);
        }
    }
    tables.entries = numbers.at;
    tables.wrong = wrong;
    Ok(Ok((tables, first)))
}

/// Reads the tables of an ET, which may be damaged. `Err`: the place, and why they can't be used.
pub(super) fn survey(
    bytes: &dyn ReadAt,
    version: Version,
) -> io::Result<Result<Tables, (u64, String)>> {
    let mut numbers = Numbers::new(bytes, HEAD_SIZE as u64);
    let (mut tables, first) = match read(&mut numbers)? {
        Ok(read) => read,
        Err(bad) => return Ok(Err((numbers.at, bad.to_string()))),
    };
    let end = tables.entries;
    // Misread numbers do not lead to the root.
    let is_root = |at| -> io::Result<bool> {
        let mut head = [0; 256];
        let count = bytes.read_at(at, &mut head)?;
        let root = decode_entry(head.get(..count).unwrap_or(&[]), version);
        // A file may also end in front of its root.
        let ends = count == 0 && at == end && tables.count > 0;
        Ok(ends || root.is_ok_and(|root| root.entry.parent == 0))
    };
    if first > 0 && is_root(end.saturating_add(first))? {
        tables.has_gaps = true;
        Ok(Ok(tables))
    } else if is_root(end)? {
        Ok(Ok(tables))
    } else {
        Ok(Err((end, "they do not lead to the first entry".to_owned())))
    }
}

/// The first place at or after `from` that looks like the root, as every writer writes it.
pub(super) fn find_root(
    bytes: &dyn ReadAt,
    version: Version,
    from: u64,
) -> io::Result<Option<u64>> {
    let mut root = Vec::new();
    encode_entry(&ROOT, version, &mut root);
    let mut window = Window::new(bytes, WINDOW);
    let mut at = from;
    loop {
        let view = window.at(at, WINDOW, bytes.size())?;
        if let Some(found) = view.windows(root.len()).position(|bytes| bytes == root) {
            return Ok(Some(at + found as u64));
        }
        // The root may lie across the end of the view.
        let step = view.len().saturating_sub(root.len() - 1);
        if step == 0 {
            return Ok(None);
        }
        at += step as u64;
    }
}
