//! Keeps the bytes of many strands apart until the file is written: in memory up to a budget, then in one unlinked file
//! in the folder for temporary files. Bytes can be changed after they were written, and are read from the front.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::memory;
use crate::temporary::{self, unlinked};

/// Bytes in memory, over all strands.
const MAX_IN_MEMORY: usize = if cfg!(test) { 4096 } else { 64 << 20 };
/// Bytes that a cursor reads at a time: a whole number of words, and of ENTRACE's items.
const READ: u64 = 512 * 40;

/// One strand.
#[derive(Debug, Default)]
struct Strand {
    /// The beginnings of its spilled pieces: in the strand, and in the file.
    spilled: Vec<(u64, u64)>,
    /// The number of spilled bytes.
    spilled_bytes: u64,
    /// The bytes behind them.
    tail: Vec<u8>,
}

impl Strand {
    fn size(&self) -> u64 {
        self.spilled_bytes + self.tail.len() as u64
    }

    /// The place in the file of a spilled byte, and the number of bytes of its piece from there on.
    fn place(&self, at: u64) -> (u64, u64) {
        let next = self.spilled.partition_point(|&(start, _)| start <= at);
        let end = self
            .spilled
            .get(next)
            .map_or(self.spilled_bytes, |piece| piece.0);
        let (start, offset) = self.spilled[next - 1];
        (offset + (at - start), end - at)
    }
}

/// All strands. A strand is named by its number.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    strands: Vec<Strand>,
    held: usize,
    file: Option<File>,
    size: u64,
}

impl Spool {
    /// A new strand; returns its number.
    pub(crate) fn strand(&mut self) -> usize {
        self.strands.push(Strand::default());
        self.strands.len() - 1
    }

    /// Bytes of a strand.
    #[inline]
    pub(crate) fn size(&self, strand: usize) -> u64 {
        self.strands[strand].size()
    }

    /// Appends to a strand.
    #[inline]
    pub(crate) fn push(&mut self, strand: usize, bytes: &[u8]) -> io::Result<()> {
        self.strands[strand].tail.extend_from_slice(bytes);
        self.held += bytes.len();
        if self.held > MAX_IN_MEMORY {
            self.spill()
        } else {
            Ok(())
        }
    }

    #[cold]
    fn spill(&mut self) -> io::Result<()> {
        memory::check()?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unlinked()?),
        };
        for strand in &mut self.strands {
            if strand.tail.is_empty() {
                continue;
            }
            let written = file.write_all_at(&strand.tail, self.size);
            written.map_err(temporary::about)?;
            strand.spilled.push((strand.spilled_bytes, self.size));
            strand.spilled_bytes = strand.size();
            self.size += strand.tail.len() as u64;
            strand.tail = Vec::new();
        }
        self.held = 0;
        Ok(())
    }

    /// Whether a part of it is in a file.
    #[cfg(test)]
    pub(crate) fn has_spilled(&self) -> bool {
        self.file.is_some()
    }

    /// Changes existing bytes of one push.
    #[inline]
    pub(crate) fn patch(&mut self, strand: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
        let strand = &mut self.strands[strand];
        match at.checked_sub(strand.spilled_bytes) {
            Some(at) => {
                strand.tail[at as usize..][..bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            None => {
                let file = self.file.as_ref();
                file.map_or(Ok(()), |file| file.write_all_at(bytes, strand.place(at).0))
            }
        }
    }

    /// Hands over all bytes of a strand, in order.
    pub(crate) fn each(
        &self,
        strand: usize,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut cursor = Cursor::new(self, strand);
        loop {
            let bytes = cursor.rest()?;
            let count = bytes.len();
            if count == 0 {
                return Ok(());
            }
            take(bytes)?;
            cursor.skip(count);
        }
    }
}

/// Reads a strand from the front. Several strands can be read in turns.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    spool: &'a Spool,
    strand: &'a Strand,
    /// The next byte.
    at: u64,
    /// Bytes read from the file, up to that byte of the strand.
    buffer: Vec<u8>,
    buffered_to: u64,
}

impl<'a> Cursor<'a> {
    /// At the front of a strand.
    pub(crate) fn new(spool: &'a Spool, strand: usize) -> Cursor<'a> {
        Cursor {
            spool,
            strand: &spool.strands[strand],
            at: 0,
            buffer: Vec::new(),
            buffered_to: 0,
        }
    }

    /// The next bytes, as many as are together; none at the end.
    #[inline]
    pub(crate) fn rest(&mut self) -> io::Result<&[u8]> {
        if let Some(at) = self.at.checked_sub(self.strand.spilled_bytes) {
            return Ok(self.strand.tail.get(at as usize..).unwrap_or(&[]));
        }
        if self.at >= self.buffered_to {
            self.read()?;
        }
        let left = (self.buffered_to - self.at) as usize;
        Ok(&self.buffer[self.buffer.len() - left..])
    }

    #[cold]
    fn read(&mut self) -> io::Result<()> {
        memory::check()?;
        let (place, size) = self.strand.place(self.at);
        let size = size.min(READ);
        self.buffer.resize(size as usize, 0);
        if let Some(file) = &self.spool.file {
            file.read_exact_at(&mut self.buffer, place)?;
        }
        self.buffered_to = self.at + size;
        Ok(())
    }

    /// This many of them are done.
    #[inline]
    pub(crate) fn skip(&mut self, count: usize) {
        self.at += count as u64;
    }
}

/// Goes through the items of all strands in the order of their keys. Of equal keys, that of the first strand comes first.
/// `step` gets a strand. It uses the strand's current item, reads the next one, and returns the key of that. Before the
/// first call a strand has no current item. `None`: the strand has no more items.
pub(crate) fn merge<T, K: Ord, E>(
    strands: &mut [T],
    mut step: impl FnMut(usize, &mut T) -> Result<Option<K>, E>,
) -> Result<(), E> {
    let mut turns = BinaryHeap::new();
    for (place, strand) in strands.iter_mut().enumerate() {
        let key = step(place, strand)?;
        turns.extend(key.map(|key| Reverse((key, place))));
    }
    while let Some(mut earliest) = turns.peek_mut() {
        let Reverse((_, place)) = *earliest;
        match step(place, &mut strands[place])? {
            Some(key) => *earliest = Reverse((key, place)),
            None => drop(PeekMut::pop(earliest)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn a_full_folder_for_temporary_files_is_named() {
        let full = OpenOptions::new().read(true).write(true).open("/dev/full");
        let mut spool = Spool {
            file: Some(full.expect("a device that is full")),
            ..Spool::default()
        };
        let strand = spool.strand();
        let error = spool
            .push(strand, &[7; MAX_IN_MEMORY + 1])
            .expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let folder = std::env::temp_dir();
        let begin = format!("{}: No space left on device", folder.display());
        let text = error.to_string();
        assert!(text.starts_with(&begin), "{text}");
        assert!(text.ends_with("(TMPDIR chooses another folder)"), "{text}");
    }

    fn all(spool: &Spool, strand: usize, step: usize) -> Vec<u8> {
        let (mut cursor, mut found) = (Cursor::new(spool, strand), Vec::new());
        loop {
            let bytes = cursor.rest().expect("a readable file");
            let count = bytes.len().min(step);
            if count == 0 {
                return found;
            }
            found.extend_from_slice(&bytes[..count]);
            cursor.skip(count);
        }
    }

    #[test]
    fn strands_come_back_changed_and_spilled() {
        const ITEM: usize = 40;
        let mut spool = Spool::default();
        let strands = [spool.strand(), spool.strand(), spool.strand()];
        let mut wanted = [Vec::new(), Vec::new(), Vec::new()];
        // The first strand gets 200 times the test's budget, so it is read in parts.
        for round in 0..20_000u64 {
            let which = if round % 100 == 0 { 1 } else { 0 };
            let bytes = [round as u8; ITEM];
            spool.push(strands[which], &bytes).expect("room");
            wanted[which].extend(bytes);
            assert!(spool.held <= MAX_IN_MEMORY);
            // One item was just written. The other is in the file already.
            for item in [round / 100, round / 1000] {
                let at = item * ITEM as u64 + 8;
                let bytes = [7, round as u8];
                spool.patch(strands[1], at, &bytes).expect("room");
                wanted[1][at as usize..][..2].copy_from_slice(&bytes);
            }
        }
        // The bytes exceed the budget, and the size of a read.
        let long: Vec<u8> = (0..3 * READ + 5).map(|byte| byte as u8).collect();
        spool.push(strands[0], &long).expect("room");
        wanted[0].extend(long);
        spool.push(strands[1], &[9; 7]).expect("room");
        wanted[1].extend([9; 7]);
        assert!(spool.has_spilled(), "the test must spill");
        assert!(!spool.strands[1].tail.is_empty(), "and leave something");
        for (strand, wanted) in strands.into_iter().zip(wanted) {
            assert_eq!(spool.size(strand), wanted.len() as u64);
            for step in [ITEM, 999, usize::MAX] {
                assert!(all(&spool, strand, step) == wanted, "{strand}, {step}");
            }
            let mut found = Vec::new();
            let each = spool.each(strand, |bytes| {
                found.extend_from_slice(bytes);
                Ok(())
            });
            each.expect("readable");
            assert!(found == wanted);
        }
    }
}
