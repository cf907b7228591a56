//! Text of several threads, which come in turns and are to be written one after the other. What waits is kept in a
//! file without a name, so that memory does not grow with it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Bytes that wait in memory.
const MAX_IN_MEMORY: usize = 16 << 20;
/// Bytes that are copied at once.
const COPY: usize = 64 << 10;

/// The text of each thread, by its place.
#[derive(Default)]
pub(super) struct Spool {
    lanes: Vec<Text>,
    waiting: usize,
    file: Option<File>,
    length: u64,
}

#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    /// Offsets and lengths in the file.
    saved: Vec<(u64, usize)>,
}

impl Spool {
    /// The end of a thread's text, to be written to.
    pub(super) fn add(&mut self, lane: usize, text: &[u8]) -> io::Result<()> {
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Text::default);
        }
        self.lanes[lane].bytes.extend_from_slice(text);
        self.waiting += text.len();
        match self.waiting > MAX_IN_MEMORY {
            true => self.save(),
            false => Ok(()),
        }
    }

    /// Puts all that waits into the file.
    fn save(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile()?);
        }
        let Some(file) = &self.file else {
            return Ok(());
        };
        for text in self.lanes.iter_mut().filter(|text| !text.bytes.is_empty()) {
            file.write_all_at(&text.bytes, self.length)?;
            text.saved.push((self.length, text.bytes.len()));
            self.length += text.bytes.len() as u64;
            text.bytes = Vec::new();
        }
        self.waiting = 0;
        Ok(())
    }

    /// Writes all of a thread's text.
    pub(super) fn write(&mut self, lane: usize, out: &mut impl Write) -> io::Result<()> {
        let Some(text) = self.lanes.get(lane) else {
            return Ok(());
        };
        let mut buffer = vec![0; COPY];
        for &(offset, length) in &text.saved {
            let Some(file) = &self.file else { break };
            for from in (0..length).step_by(COPY) {
                let part = &mut buffer[..COPY.min(length - from)];
                file.read_exact_at(part, offset + from as u64)?;
                out.write_all(part)?;
            }
        }
        out.write_all(&text.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_gets_its_text_back() {
        let mut spool = Spool::default();
        let mut wanted = vec![Vec::new(); 3];
        for nth in 0..60_usize {
            let text = vec![nth as u8; 1_000_003];
            spool.add(nth % 3, &text).unwrap();
            wanted[nth % 3].extend(text);
        }
        assert!(spool.file.is_some());
        for (lane, wanted) in wanted.iter().enumerate() {
            let mut text = Vec::new();
            spool.write(lane, &mut text).unwrap();
            assert!(text == *wanted, "{lane}");
        }
    }
}
