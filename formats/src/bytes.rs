//! Bounded reading: files by position, records by field. No method in here can panic or allocate
//! from a length that was read.
//!
//! [`ReadAt`] is a file or bytes in memory, [`Window`] slides over it in constant memory,
//! [`Fields`] takes a record's fields one by one.

use std::fs::File;
use std::io;

use crate::memory;

/// Something that can be read at any position: a file, or bytes in memory.
pub trait ReadAt: Send + Sync {
    /// Size in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` from `offset` on. Returns the number of bytes, which is smaller only at the end.
    ///
    /// # Errors
    /// The operating system's error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.get(offset..))
            .unwrap_or(&[]);
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
    /// If the operating system can't state its size.
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
        // Between two reads, the memory of what is kept of a file may have grown.
        memory::check()?;
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

/// Whole groups of `N` bytes, one behind the other. A rest of fewer bytes is no group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups<'a, const N: usize>(&'a [u8]);

impl<'a, const N: usize> Groups<'a, N> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8]) -> Groups<'a, N> {
        Groups(bytes)
    }

    /// The number of groups.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.0.len() / N
    }

    #[inline(always)]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    #[inline(always)]
    pub(crate) fn get(self, nth: usize) -> Option<[u8; N]> {
        self.0.get(nth.checked_mul(N)?..)?.first_chunk().copied()
    }

    /// The groups from this one on.
    #[inline(always)]
    pub(crate) fn behind(self, from: usize) -> Groups<'a, N> {
        Groups(self.0.get(from.saturating_mul(N)..).unwrap_or(&[]))
    }

    /// At most this many groups.
    #[inline(always)]
    pub(crate) fn first(self, most: usize) -> Groups<'a, N> {
        Groups(self.0.get(..most.saturating_mul(N)).unwrap_or(self.0))
    }

    #[inline(always)]
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = [u8; N]> + 'a {
        groups(self.0)
    }
}

/// Each of the whole groups of `N` bytes.
#[inline(always)]
pub(crate) fn groups<const N: usize>(bytes: &[u8]) -> impl ExactSizeIterator<Item = [u8; N]> + '_ {
    bytes.chunks_exact(N).map(|group| {
        let mut array = [0; N];
        array.copy_from_slice(group);
        array
    })
}

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Takes fields from the front of some bytes. `None`: the bytes end too early.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Fields<'a> {
    /// Fields of these bytes in this order.
    #[must_use]
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Fields<'a> {
        Fields { rest: bytes, order }
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(field)
    }

    /// The next `count` bytes as fields of their own.
    pub fn part(&mut self, count: usize) -> Option<Fields<'a>> {
        Some(Fields::new(self.bytes(count)?, self.order))
    }

    /// Whether no byte is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_ne_bytes)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        let (big, bytes) = (self.order == ByteOrder::Big, self.array()?);
        Some(if big {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        })
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        let (big, bytes) = (self.order == ByteOrder::Big, self.array()?);
        Some(if big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        let (big, bytes) = (self.order == ByteOrder::Big, self.array()?);
        Some(if big {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        })
    }

    /// Text of that many bytes; bytes that are no UTF-8 become U+FFFD.
    pub fn text(&mut self, count: u32) -> Option<String> {
        let bytes = self.bytes(usize::try_from(count).ok()?)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// A window of fixed size that slides over a file.
pub struct Window<'a> {
    bytes: &'a dyn ReadAt,
    buffer: Vec<u8>,
    offset: u64,
    filled: usize,
}

impl<'a> Window<'a> {
    /// A window of `capacity` bytes (or the whole file, if that is less), empty so far.
    #[must_use]
    pub fn new(bytes: &'a dyn ReadAt, capacity: usize) -> Window<'a> {
        let capacity = usize::try_from(bytes.size()).map_or(capacity, |size| size.min(capacity));
        Window {
            bytes,
            buffer: vec![0; capacity],
            offset: 0,
            filled: 0,
        }
    }

    /// The file under the window.
    #[must_use]
    pub fn source(&self) -> &'a dyn ReadAt {
        self.bytes
    }

    /// Whether the `want` bytes from `offset` on are in the window.
    #[must_use]
    pub fn holds(&self, offset: u64, want: usize) -> bool {
        self.place(offset)
            .is_some_and(|start| start.saturating_add(want) <= self.filled)
    }

    /// The place of `offset` in the buffer, if the buffer does not begin behind it.
    fn place(&self, offset: u64) -> Option<usize> {
        usize::try_from(offset.checked_sub(self.offset)?).ok()
    }

    /// Bytes from `offset` up to at most `end`. There are at least `want` of them, or as many as the
    /// window can hold. There are fewer only if `end` or the file's end is nearer.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn at(&mut self, offset: u64, want: usize, end: u64) -> io::Result<&[u8]> {
        let want = want.min(self.buffer.len());
        let need = usize::try_from(end.saturating_sub(offset)).map_or(want, |left| left.min(want));
        let start = match self.place(offset) {
            Some(start) if start.saturating_add(need) <= self.filled => start,
            _ => {
                let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
                let capacity = self.buffer.len().min(left);
                self.filled = 0;
                self.filled = self.bytes.read_at(offset, &mut self.buffer[..capacity])?;
                self.offset = offset;
                0
            }
        };
        let stop = usize::try_from(end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        Ok(self.buffer.get(start..self.filled.min(stop)).unwrap_or(&[]))
    }
}
