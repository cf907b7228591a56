//! Bounded reading: files by position, records by field. No method in here can panic or allocate
//! from a length that was read.

use std::fs::File;
use std::io;

/// Something that can be read at any position: a file, or bytes in memory.
pub trait ReadAt: Send + Sync {
    /// Size in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` from `offset` on; returns how many bytes there were, fewer only at the end.
    ///
    /// # Errors
    /// What the operating system says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// A file opened for reading, with its size at that moment.
#[derive(Debug)]
pub struct FileBytes {
    file: File,
    size: u64,
}

impl FileBytes {
    /// Takes an open file.
    ///
    /// # Errors
    /// Where its size can't be told.
    pub fn new(file: File) -> io::Result<FileBytes> {
        let size = file.metadata()?.len();
        Ok(FileBytes { file, size })
    }
}

impl ReadAt for FileBytes {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}
