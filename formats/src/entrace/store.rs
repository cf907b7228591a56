//! Bytes of many strands, which can be changed after they were written and are read from the front: in
//! memory up to a budget, beyond it in one unlinked temporary file. Must never keep more than the
//! budget, and a chunk for each strand.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::item;
use crate::temporary::{self, unlinked};

/// Bytes of a chunk: a whole number of items, so that none lies in two.
const CHUNK: usize = 512 * item::SIZE;
/// Bytes of whole chunks in memory, over all strands.
const BUDGET: usize = if cfg!(test) { 4 * CHUNK } else { 64 << 20 };

/// Every strand. One is named by its number.
#[derive(Debug, Default)]
pub(super) struct Store {
    strands: Vec<Strand>,
    /// Bytes of whole chunks in memory.
    held: usize,
    /// Chunks that were spilled, to be filled again.
    spare: Vec<Vec<u8>>,
    file: Option<File>,
    size: u64,
}

#[derive(Debug, Default)]
struct Strand {
    /// Places in the file of the chunks that come first.
    spilled: Vec<u64>,
    /// The chunks that come after them; all but the last are whole.
    chunks: Vec<Vec<u8>>,
    size: u64,
}

impl Store {
    /// A new strand; returns its number.
    pub(super) fn strand(&mut self) -> usize {
        self.strands.push(Strand::default());
        self.strands.len() - 1
    }

    /// Bytes of a strand.
    pub(super) fn size(&self, strand: usize) -> u64 {
        self.strands[strand].size
    }

    /// Appends to a strand.
    #[inline]
    pub(super) fn push(&mut self, strand: usize, bytes: &[u8]) -> io::Result<()> {
        let strand = &mut self.strands[strand];
        strand.size += bytes.len() as u64;
        if let Some(chunk) = strand.chunks.last_mut() {
            if chunk.len() + bytes.len() < CHUNK {
                chunk.extend_from_slice(bytes);
                return Ok(());
            }
        }
        let whole = strand.begin_chunks(bytes, &mut self.spare);
        self.held += whole * CHUNK;
        if self.held > BUDGET {
            self.spill()
        } else {
            Ok(())
        }
    }

    #[cold]
    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unlinked()?),
        };
        for strand in &mut self.strands {
            let is_whole = |chunk: &Vec<u8>| chunk.len() == CHUNK;
            let whole = strand.chunks.iter().filter(|chunk| is_whole(chunk)).count();
            for mut chunk in strand.chunks.drain(..whole) {
                let written = file.write_all_at(&chunk, self.size);
                written.map_err(temporary::about)?;
                strand.spilled.push(self.size);
                self.size += CHUNK as u64;
                chunk.clear();
                self.spare.push(chunk);
            }
        }
        self.held = 0;
        Ok(())
    }

    /// Whether some of it is in a file.
    #[cfg(test)]
    pub(super) fn has_spilled(&self) -> bool {
        self.file.is_some()
    }

    /// Nothing more is appended: frees what was kept for it.
    pub(super) fn close(&mut self) {
        self.spare = Vec::new();
    }

    /// Changes bytes that are there. They must not lie in two chunks.
    #[inline]
    pub(super) fn patch(&mut self, strand: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
        let strand = &mut self.strands[strand];
        let (chunk, place) = split(at);
        match chunk.checked_sub(strand.spilled.len()) {
            Some(chunk) => {
                strand.chunks[chunk][place..place + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            None => {
                let place = strand.spilled[chunk] + place as u64;
                let file = self.file.as_ref();
                file.map_or(Ok(()), |file| file.write_all_at(bytes, place))
            }
        }
    }
}

impl Strand {
    /// Appends, over as many chunks as it takes; returns how many became whole.
    #[cold]
    fn begin_chunks(&mut self, mut bytes: &[u8], spare: &mut Vec<Vec<u8>>) -> usize {
        let mut whole = 0;
        while !bytes.is_empty() {
            if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
                // A strand that has filled a chunk will fill another, as a rule.
                let first = self.chunks.is_empty() && self.spilled.is_empty();
                let capacity = if first { 0 } else { CHUNK };
                let chunk = spare.pop();
                self.chunks
                    .push(chunk.unwrap_or_else(|| Vec::with_capacity(capacity)));
            }
            let Some(chunk) = self.chunks.last_mut() else {
                break;
            };
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - chunk.len()));
            chunk.extend_from_slice(now);
            whole += usize::from(chunk.len() == CHUNK);
            bytes = later;
        }
        whole
    }
}

#[inline]
fn split(at: u64) -> (usize, usize) {
    ((at / CHUNK as u64) as usize, (at % CHUNK as u64) as usize)
}

/// Reads a strand from the front. Holds a chunk of it where it is in the file.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    store: &'a Store,
    strand: &'a Strand,
    /// Chunks that were begun.
    chunks: usize,
    /// The last of them, where it is in memory.
    kept: Option<&'a [u8]>,
    /// The last of them, where it is in the file.
    buffer: Vec<u8>,
    /// What of it is done.
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the front of a strand.
    pub(super) fn new(store: &'a Store, strand: usize) -> Cursor<'a> {
        Cursor {
            store,
            strand: &store.strands[strand],
            chunks: 0,
            kept: None,
            buffer: Vec::new(),
            at: 0,
        }
    }

    /// The next bytes, up to the end of a chunk; none at the end.
    pub(super) fn rest(&mut self) -> io::Result<&[u8]> {
        if self.loaded().is_empty() {
            self.load()?;
        }
        Ok(self.loaded())
    }

    fn loaded(&self) -> &[u8] {
        let chunk = self.kept.unwrap_or(&self.buffer);
        chunk.get(self.at..).unwrap_or(&[])
    }

    /// So many of them are done.
    pub(super) fn skip(&mut self, count: usize) {
        self.at += count;
    }

    fn load(&mut self) -> io::Result<()> {
        match self.chunks.checked_sub(self.strand.spilled.len()) {
            Some(nth) => match self.strand.chunks.get(nth) {
                Some(chunk) => self.kept = Some(chunk),
                None => return Ok(()),
            },
            None => {
                self.buffer.resize(CHUNK, 0);
                if let Some(file) = &self.store.file {
                    file.read_exact_at(&mut self.buffer, self.strand.spilled[self.chunks])?;
                }
            }
        }
        (self.chunks, self.at) = (self.chunks + 1, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(store: &Store, strand: usize, step: usize) -> Vec<u8> {
        let (mut cursor, mut found) = (Cursor::new(store, strand), Vec::new());
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
    fn strands_come_back_as_they_were_changed_whether_spilled_or_not() {
        let mut store = Store::default();
        let strands = [store.strand(), store.strand(), store.strand()];
        let mut wanted = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..20_000u64 {
            let which = if round % 100 == 0 { 1 } else { 0 };
            let bytes = [round as u8; item::SIZE];
            store.push(strands[which], &bytes).expect("room");
            wanted[which].extend(bytes);
            assert!(store.held <= BUDGET);
            // One that was just written, and one that is in the file by then.
            for item in [round / 100, round / 1000] {
                let at = item * item::SIZE as u64 + 8;
                store
                    .patch(strands[1], at, &[7, round as u8])
                    .expect("room");
                wanted[1][at as usize..][..2].copy_from_slice(&[7, round as u8]);
            }
        }
        assert!(store.file.is_some(), "the test must spill");
        assert!(store.strands[1].spilled.is_empty(), "and leave something");
        for (&strand, wanted) in strands.iter().zip(&wanted) {
            assert_eq!(store.size(strand), wanted.len() as u64);
            assert!(all(&store, strand, item::SIZE) == *wanted);
            assert!(all(&store, strand, 12_345) == *wanted);
        }
    }

    #[test]
    fn what_is_longer_than_a_chunk_is_kept_too() {
        let mut store = Store::default();
        let strand = store.strand();
        let mut wanted = Vec::new();
        for size in [1, CHUNK - 1, CHUNK, 0, 3 * CHUNK + 5, 10] {
            let bytes: Vec<u8> = (0..size).map(|byte| byte as u8).collect();
            store.push(strand, &bytes).expect("room");
            wanted.extend(bytes);
        }
        assert!(all(&store, strand, usize::MAX) == wanted);
    }
}
