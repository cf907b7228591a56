//! A file that is written in a thread of its own, while the next bytes are being made.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes that are handed over at once.
const BUFFER: usize = 256 * 1024;
/// Buffers that wait, and that come back.
const WAITING: usize = 4;

/// What is written goes to the thread. [`Write::flush`], and dropping it, wait until that has written all.
pub(super) struct WriteThread {
    buffer: Vec<u8>,
    /// `None`: nothing can be written any more.
    thread: Option<Worker>,
}

struct Worker {
    full: SyncSender<Vec<u8>>,
    /// An empty buffer for each full one that is written.
    emptied: Receiver<Vec<u8>>,
    /// Buffers that are out.
    out: usize,
    handle: JoinHandle<io::Result<()>>,
}

impl WriteThread {
    /// Writes to `to`.
    ///
    /// # Errors
    /// Where there can be no more threads.
    pub(super) fn new(mut to: impl Write + Send + 'static) -> io::Result<WriteThread> {
        let (full, filled) = sync_channel::<Vec<u8>>(WAITING);
        let (empty, emptied) = sync_channel(2 * WAITING);
        let work = move || {
            for mut bytes in filled {
                to.write_all(&bytes)?;
                bytes.clear();
                // The encoder may have ended, and then needs no empty buffer.
                let _ = empty.send(bytes);
            }
            to.flush()
        };
        let handle = std::thread::Builder::new().spawn(work)?;
        Ok(WriteThread {
            buffer: Vec::with_capacity(BUFFER),
            thread: Some(Worker {
                full,
                emptied,
                out: 0,
                handle,
            }),
        })
    }

    /// Hands the buffer over.
    fn send(&mut self) -> io::Result<()> {
        let Some(worker) = &mut self.thread else {
            return Err(io::Error::other("nothing can be written any more"));
        };
        let next = match worker.out < WAITING {
            true => Some(Vec::with_capacity(BUFFER)),
            false => worker.take_back(),
        };
        let bytes = std::mem::replace(&mut self.buffer, next.unwrap_or_default());
        match worker.full.send(bytes) {
            Ok(()) => {
                worker.out += 1;
                Ok(())
            }
            Err(_) => self.end(),
        }
    }

    /// Waits for the thread's end; the error that it met.
    fn end(&mut self) -> io::Result<()> {
        let Some(Worker { full, handle, .. }) = self.thread.take() else {
            return Ok(());
        };
        drop(full);
        match handle.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Worker {
    /// A buffer that was written; none where the thread has ended.
    fn take_back(&mut self) -> Option<Vec<u8>> {
        let buffer = self.emptied.recv().ok()?;
        self.out -= 1;
        Some(buffer)
    }
}

impl Write for WriteThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() >= BUFFER {
            self.send()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.send()?;
        }
        let Some(worker) = &mut self.thread else {
            return Err(io::Error::other("nothing can be written any more"));
        };
        while worker.out > 0 {
            if worker.take_back().is_none() {
                return self.end();
            }
        }
        Ok(())
    }
}

impl Drop for WriteThread {
    fn drop(&mut self) {
        // A caller that needs the errors has called `flush` before.
        let _ = self.flush();
        if !std::thread::panicking() {
            let _ = self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Never all at once.
            let count = bytes.len().min(100_003);
            self.0.lock().unwrap().extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_are_ordered_and_complete_after_flush() {
        let memory = Memory::default();
        let mut writer = WriteThread::new(memory.clone()).unwrap();
        let mut wanted = Vec::new();
        for nth in 0..300_000_u32 {
            let bytes = [nth.to_le_bytes(); 11];
            writer.write_all(bytes.as_flattened()).unwrap();
            wanted.extend_from_slice(bytes.as_flattened());
            if nth % 100_000 == 7 {
                writer.flush().unwrap();
                assert!(*memory.0.lock().unwrap() == wanted);
            }
        }
        writer.write_all(&wanted).unwrap();
        wanted.extend_from_within(..);
        drop(writer);
        assert!(*memory.0.lock().unwrap() == wanted);
    }

    #[test]
    fn after_an_error_bytes_are_refused() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or_else(full)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        fn full() -> io::Error {
            io::Error::new(io::ErrorKind::StorageFull, "full")
        }
        for room in [0, BUFFER, 3 * BUFFER] {
            let mut writer = WriteThread::new(Full(room)).unwrap();
            let bytes = vec![1; BUFFER];
            let mut error = None;
            for _ in 0..100 {
                error = error.or_else(|| writer.write_all(&bytes).err());
            }
            let error = error.or_else(|| writer.flush().err());
            assert_eq!(error.unwrap().kind(), io::ErrorKind::StorageFull);
            assert!(writer.flush().is_err());
        }
        let mut writer = WriteThread::new(Full(5)).unwrap();
        writer.write_all(&[0; 6]).unwrap();
        assert_eq!(
            writer.flush().unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
    }
}
