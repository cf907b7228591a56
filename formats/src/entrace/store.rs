//! Bytes of many strands, which can be changed after they were written and are read from the front: in
//! memory up to a budget, beyond it in one unlinked temporary file. Must never keep more than the
//! budget, and a chunk for each strand.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::item;
use crate::spool::unlinked;

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
        if let Some(chunk) = strand.chunks.last_mut()
            && chunk.len() + bytes.len() < CHUNK
        {
            chunk.extend_from_slice(bytes);
            return Ok(());
        }
        let whole = strand.begin_chunks(bytes);
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
            for chunk in strand.chunks.drain(..whole) {
                file.write_all_at(&chunk, self.size)?;
                strand.spilled.push(self.size);
                self.size += CHUNK as u64;
            }
        }
        self.held = 0;
        Ok(())
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
    fn begin_chunks(&mut self, mut bytes: &[u8]) -> usize {
        let mut whole = 0;
        while !bytes.is_empty() {
            if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
                // A strand that has filled a chunk will fill another, as a rule.
                let first = self.chunks.is_empty() && self.spilled.is_empty();
                let capacity = if first { 0 } else { CHUNK };
                self.chunks.push(Vec::with_capacity(capacity));
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

/// Reads a strand from the front. Holds a chunk of it.
#[derive(Debug)]
pub(super) struct Cursor {
    strand: usize,
    /// Chunks that were loaded.
    loaded: usize,
    /// The last of them.
    chunk: Vec<u8>,
    /// What of it is taken.
    at: usize,
}

impl Cursor {
    /// At the front of a strand.
    pub(super) fn new(strand: usize) -> Cursor {
        Cursor {
            strand,
            loaded: 0,
            chunk: Vec::new(),
            at: 0,
        }
    }

    /// The next bytes, up to the end of a chunk; none at the end.
    #[inline]
    pub(super) fn rest(&mut self, store: &Store) -> io::Result<&[u8]> {
        if self.at == self.chunk.len() {
            self.load(store)?;
        }
        Ok(&self.chunk[self.at..])
    }

    /// As [`rest`](Self::rest), but at most `most`, and the next ones come after them.
    #[inline]
    pub(super) fn take(&mut self, store: &Store, most: usize) -> io::Result<&[u8]> {
        let count = self.rest(store)?.len().min(most);
        let begin = self.at;
        self.at += count;
        Ok(&self.chunk[begin..self.at])
    }

    #[cold]
    fn load(&mut self, store: &Store) -> io::Result<()> {
        let strand = &store.strands[self.strand];
        self.chunk.clear();
        self.at = 0;
        match self.loaded.checked_sub(strand.spilled.len()) {
            Some(nth) => match strand.chunks.get(nth) {
                Some(chunk) => self.chunk.extend_from_slice(chunk),
                None => return Ok(()),
            },
            None => {
                self.chunk.resize(CHUNK, 0);
                if let Some(file) = &store.file {
                    file.read_exact_at(&mut self.chunk, strand.spilled[self.loaded])?;
                }
            }
        }
        self.loaded += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(store: &Store, strand: usize, step: usize) -> Vec<u8> {
        let (mut cursor, mut found) = (Cursor::new(strand), Vec::new());
        loop {
            let bytes = cursor.take(store, step).expect("a readable file");
            if bytes.is_empty() {
                return found;
            }
            found.extend_from_slice(bytes);
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
