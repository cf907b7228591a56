//! Entries on their way into a file, and an ET's tables, which stand in front of them: those need every
//! entry's size and parent, so they are made by going through all entries once more.

use std::io;

use super::behind::Behind;
use super::bincode::put_u64;
use super::container::{Container, Kind, encode_head, put_entry};

/// Bytes that are collected before they are written.
const BUFFER: usize = 128 * 1024;
/// No entry.
const NONE: u32 = u32::MAX;

/// What entries are given to, one by one.
pub(super) trait Take {
    /// The entry at the place `own` has that parent. `size` is its bytes, `put` appends them.
    fn entry(
        &mut self,
        own: u32,
        parent: u32,
        size: impl FnOnce() -> usize,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()>;
}

/// Writes the table of offsets, and learns which entry is in which.
pub(super) struct Tables<'a, 'b> {
    out: &'a mut Out<'b>,
    offset: u64,
    /// The last child of each entry.
    last: Vec<u32>,
    /// The child of the same parent before each.
    before: Vec<u32>,
}

impl<'a, 'b> Tables<'a, 'b> {
    pub(super) fn new(out: &'a mut Out<'b>, entries: u32) -> Tables<'a, 'b> {
        put_u64(&mut out.bytes, entries.into());
        Tables {
            out,
            offset: 0,
            last: vec![NONE; entries as usize],
            before: vec![NONE; entries as usize],
        }
    }

    /// Writes the children of each entry, ascending.
    pub(super) fn pool(mut self) -> io::Result<()> {
        let out = self.out;
        put_u64(&mut out.bytes, self.last.len() as u64);
        for &last in &self.last {
            let (mut at, mut first, mut count) = (last, NONE, 0);
            while at != NONE {
                let before = std::mem::replace(&mut self.before[at as usize], first);
                (first, at) = (at, before);
                count += 1;
            }
            put_u64(&mut out.bytes, count);
            while first != NONE {
                put_u64(&mut out.bytes, first.into());
                first = self.before[first as usize];
                out.room()?;
            }
            out.room()?;
        }
        Ok(())
    }
}

impl Take for Tables<'_, '_> {
    fn entry(
        &mut self,
        own: u32,
        parent: u32,
        size: impl FnOnce() -> usize,
        _: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        put_u64(&mut self.out.bytes, self.offset);
        self.offset += size() as u64;
        if own > 0 {
            let last = std::mem::replace(&mut self.last[parent as usize], own);
            self.before[own as usize] = last;
        }
        self.out.room()
    }
}

/// The file, with what is not written yet.
pub(super) struct Out<'a> {
    behind: Behind<'a>,
    prefixed: bool,
    bytes: Vec<u8>,
}

impl Out<'_> {
    /// Begins with the head.
    pub(super) fn new(behind: Behind<'_>, kind: Kind) -> Out<'_> {
        let mut bytes = Vec::with_capacity(BUFFER + BUFFER / 4);
        bytes.extend_from_slice(&encode_head(kind));
        Out {
            behind,
            prefixed: kind.container == Container::IetPrefix,
            bytes,
        }
    }

    #[inline]
    fn room(&mut self) -> io::Result<()> {
        if self.bytes.len() < BUFFER {
            return Ok(());
        }
        self.flush()
    }

    /// Writes what is left.
    #[cold]
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.behind.put(&mut self.bytes)?;
        self.bytes.reserve(BUFFER + BUFFER / 4);
        Ok(())
    }
}

impl Take for Out<'_> {
    #[inline]
    fn entry(
        &mut self,
        _: u32,
        _: u32,
        _: impl FnOnce() -> usize,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        put_entry(&mut self.bytes, self.prefixed, put);
        self.room()
    }
}
