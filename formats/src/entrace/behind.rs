//! Writes a file on a thread of its own, so that the next bytes are made while the ones before them are
//! written. Must never hold more than a few buffers, nor lose an error.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Buffers that wait to be written, or are being written.
const BUFFERS: usize = 2;

/// The file, which takes buffers.
pub(super) struct Behind<'a> {
    file: &'a File,
    /// `None`: there is no other thread.
    thread: Option<Buffers>,
}

/// To the thread, and back from it.
struct Buffers {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
}

/// Writes what `make` gives. `much`: it is worth a thread. Where none can be had, this one writes.
pub(super) fn write(
    file: &File,
    much: bool,
    make: impl FnOnce(Behind<'_>) -> io::Result<()>,
) -> io::Result<()> {
    if !much {
        return make(Behind { file, thread: None });
    }
    let (full, to_write) = sync_channel::<Vec<u8>>(BUFFERS);
    let (written, empty) = sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        // There is room for all of them.
        let _ = written.send(Vec::new());
    }
    let work = move || -> io::Result<()> {
        let mut file = file;
        for mut bytes in to_write {
            file.write_all(&bytes)?;
            bytes.clear();
            // Who made them may have made the last.
            let _ = written.send(bytes);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("fdr-write".to_owned());
        let Ok(thread) = builder.spawn_scoped(scope, work) else {
            return make(Behind { file, thread: None });
        };
        let thread_has = Some(Buffers { full, empty });
        let made = make(Behind {
            file,
            thread: thread_has,
        });
        match thread.join() {
            // It says why; to `make` it was only gone.
            Ok(written) => written.and(made),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl Behind<'_> {
    /// Takes the bytes, and gives an empty buffer for them.
    pub(super) fn put(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let Some(buffers) = &self.thread else {
            self.file.write_all(bytes)?;
            bytes.clear();
            return Ok(());
        };
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let next = buffers.empty.recv().map_err(|_| gone())?;
        let full = std::mem::replace(bytes, next);
        buffers.full.send(full).map_err(|_| gone())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::{Read, Seek};

    use super::*;
    use crate::temporary::unlinked;

    fn many(mut behind: Behind<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for round in 0..100u8 {
            bytes.resize(usize::from(round) * 100, round);
            behind.put(&mut bytes)?;
            assert!(bytes.is_empty());
        }
        Ok(())
    }

    #[test]
    fn everything_is_written_in_order_with_a_thread_and_without() {
        let wanted: Vec<u8> = (0..100u8)
            .flat_map(|round| vec![round; usize::from(round) * 100])
            .collect();
        for much in [false, true] {
            let mut file = unlinked().expect("a folder for temporary files");
            write(&file, much, many).expect("room");
            let mut found = Vec::new();
            file.rewind().expect("a file");
            file.read_to_end(&mut found).expect("a file");
            assert!(found == wanted, "with a thread: {much}");
        }
    }

    #[test]
    fn an_error_is_told_and_is_the_real_one() {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let full = full.expect("every Linux has it");
        for much in [false, true] {
            let written = write(&full, much, many).map_err(|error| error.kind());
            assert_eq!(written, Err(io::ErrorKind::StorageFull), "{much}");
            let fails = |_: Behind<'_>| Err(io::ErrorKind::TimedOut.into());
            let written = write(&full, much, fails).map_err(|error| error.kind());
            assert_eq!(written, Err(io::ErrorKind::TimedOut), "{much}");
        }
    }
}
