//! Bytes of many threads, kept apart until the file is written: in memory up to a budget, then in
//! one unlinked file in the folder for temporary files. Must never keep more than the budget.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use crate::temporary::{self, unlinked};

use crate::memory;

/// Bytes in memory, over all threads.
const BUDGET: usize = if cfg!(test) { 4096 } else { 64 << 20 };

/// One thread's bytes.
#[derive(Debug, Default)]
pub(crate) struct Strand {
    /// Offset and bytes in the spool file, in order.
    spilled: Vec<(u64, u64)>,
    /// What comes after them.
    tail: Vec<u8>,
}

/// How far a strand was read.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// Pieces in the spool file that are done.
    pieces: usize,
    /// Bytes that are done of the piece after them.
    bytes: u64,
}

/// Every thread's bytes. A strand is named by its number.
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

    /// Appends to a strand.
    pub(crate) fn push(&mut self, strand: usize, bytes: &[u8]) -> io::Result<()> {
        self.strands[strand].tail.extend_from_slice(bytes);
        self.held += bytes.len();
        if self.held > BUDGET {
            memory::check()?;
            self.spill()
        } else {
            Ok(())
        }
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unlinked()?),
        };
        file.seek(SeekFrom::Start(self.size))?;
        for strand in self
            .strands
            .iter_mut()
            .filter(|strand| !strand.tail.is_empty())
        {
            file.write_all(&strand.tail).map_err(temporary::about)?;
            let bytes = strand.tail.len() as u64;
            strand.spilled.push((self.size, bytes));
            self.size += bytes;
            strand.tail = Vec::new();
        }
        self.held = 0;
        Ok(())
    }

    /// The next bytes of a strand, as many as there are at one place: strands can be read in turns.
    /// 0 at its end.
    pub(crate) fn read(
        &self,
        strand: usize,
        cursor: &mut Cursor,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        memory::check()?;
        let Strand { spilled, tail } = &self.strands[strand];
        let spilled = spilled.get(cursor.pieces).zip(self.file.as_ref());
        let size = spilled.map_or(tail.len() as u64, |(&(_, size), _)| size);
        let left = usize::try_from(size - cursor.bytes).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        let buffer = &mut buffer[..count];
        match spilled {
            Some((&(offset, _), file)) => file.read_exact_at(buffer, offset + cursor.bytes)?,
            None => buffer.copy_from_slice(&tail[tail.len() - left..][..count]),
        }
        cursor.bytes += count as u64;
        if spilled.is_some() && cursor.bytes == size {
            (cursor.pieces, cursor.bytes) = (cursor.pieces + 1, 0);
        }
        Ok(count)
    }

    /// Hands all bytes of a strand over, in order.
    pub(crate) fn drain(
        &mut self,
        strand: usize,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Strand { spilled, tail } = std::mem::take(&mut self.strands[strand]);
        let mut buffer = vec![0; if spilled.is_empty() { 0 } else { 256 * 1024 }];
        for (offset, bytes) in spilled {
            let Some(file) = &mut self.file else { break };
            file.seek(SeekFrom::Start(offset))?;
            let mut left = bytes;
            while left > 0 {
                let count = usize::try_from(left)
                    .unwrap_or(buffer.len())
                    .min(buffer.len());
                file.read_exact(&mut buffer[..count])?;
                take(&buffer[..count])?;
                left -= count as u64;
            }
        }
        take(&tail)
    }
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
        let error = spool.push(strand, &[7; BUDGET + 1]).expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let folder = std::env::temp_dir();
        let begin = format!("{}: No space left on device", folder.display());
        let text = error.to_string();
        assert!(text.starts_with(&begin), "{text}");
        assert!(text.ends_with("(TMPDIR chooses another folder)"), "{text}");
    }

    #[test]
    fn strands_come_back_whole_whether_spilled_or_not() {
        let mut spool = Spool::default();
        let strands = [spool.strand(), spool.strand(), spool.strand()];
        let mut wanted = [Vec::new(), Vec::new(), Vec::new()];
        // 300 times the test's budget for the first strand, so much that it is read in parts.
        for round in 0..100_000u32 {
            let which = if round % 100 == 0 { 1 } else { 0 };
            let bytes = round.to_le_bytes();
            spool
                .push(strands[which], &bytes)
                .expect("a folder for temporary files");
            wanted[which].extend(bytes);
            assert!(spool.held <= BUDGET);
        }
        assert!(spool.file.is_some(), "the test must spill");
        for (strand, wanted) in strands.into_iter().zip(wanted) {
            let (mut cursor, mut read, mut buffer) = (Cursor::default(), Vec::new(), [0; 999]);
            loop {
                let count = spool.read(strand, &mut cursor, &mut buffer);
                match count.expect("readable") {
                    0 => break,
                    count => read.extend_from_slice(&buffer[..count]),
                }
            }
            assert_eq!(read, wanted);
            let mut found = Vec::new();
            spool
                .drain(strand, |bytes| {
                    found.extend_from_slice(bytes);
                    Ok(())
                })
                .expect("readable");
            assert_eq!(found, wanted);
        }
    }
}
