//! The page in which a program keeps its own counts: how the program writes them, and how a test reads them after the
//! program's end. Entry 0 is the program's, entry *n* that of its *n*-th thread.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of an entry: a cache line.
pub const ENTRY: usize = 64;
/// Entries of a page.
pub const ENTRIES: usize = 4096;

/// Word of a thread: records that are surely made; there may be one more.
pub const MADE: usize = 0;
/// Word of a thread: 1 = it has begun, 2 = it has made its last record.
pub const LIFE: usize = 1;
/// Word of a thread: signals handled on it.
pub const HANDLED: usize = 2;
/// Word of a thread: calls that it was given.
pub const CALLS: usize = 3;

/// Word of a thread: records that it had surely made when the process was to crash.
pub const CRASHED: usize = 6;
/// Word of the thread that crashes: when it was to, in µs of Unix time.
pub const CRASHED_AT: usize = 7;

/// Entry of the first child; its own child's is the next one, then comes the second.
pub const FIRST_CHILD: usize = 16;
/// Word of a child: its process id.
pub const CHILD_PID: usize = 4;
/// Word of a child: one more than the number of the way in which it ends.
pub const CHILD_LIFE: usize = 5;

/// Word of the program: what it has come to.
pub const PHASE: usize = 0;
/// Word of the program, written from outside: 1 = stop.
pub const STOP: usize = 1;
/// Word of the program: the last thread's number.
pub const THREADS: usize = 2;
/// Word of the program: how often something was wrong in its own eyes.
pub const WRONG: usize = 3;
/// Word of the program, written from outside: chunks of each thread's ring.
pub const CHUNKS: usize = 4;
/// Word of the program: signals handled, by whichever thread.
pub const SIGNALS: usize = 5;
/// Word of the program, written from outside: how it records, a number of [`way`].
pub const WAY: usize = 6;
/// Word of the program: how often its lock was taken, counted by those who had it.
pub const LOCKED: usize = 7;

/// How a program records.
pub mod way {
    /// Functions alone.
    pub const PLAIN: u64 = 0;
    /// It uses all that the recorder has, and each call leaves its records.
    pub const NOTED: u64 = 1;
    /// The same, but short calls leave none.
    pub const NOTED_AND_SHORT: u64 = 2;
    /// Functions alone, of one in [`ONE_IN`] top-level calls.
    pub const SAMPLED: u64 = 3;
    /// Functions alone, some of which are only counted after a while.
    pub const COUNTED: u64 = 4;

    /// Of so many top-level calls of a thread, the first is recorded.
    pub const ONE_IN: u64 = 3;

    /// Whether the program uses all that the recorder has.
    #[must_use]
    pub fn is_noted(way: u64) -> bool {
        matches!(way, NOTED | NOTED_AND_SHORT)
    }
}

/// Calls of a short thread, by its number.
#[must_use]
pub fn calls(number: u64) -> u64 {
    1 + number % 5
}

/// Second name of a program's ring, in its folder: what it was at the end, whoever removes it.
pub const LINK: &str = "link";

/// A page, seen from outside.
#[derive(Debug)]
pub struct Truth(File);

impl Truth {
    /// Makes a page at `path`, all zeros.
    ///
    /// # Errors
    /// Where there is no room for it.
    pub fn create(path: &Path) -> io::Result<Truth> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        file.set_len((ENTRIES * ENTRY) as u64)?;
        Ok(Truth(file))
    }

    /// A word of an entry.
    ///
    /// # Panics
    /// If the page can't be read.
    #[must_use]
    pub fn get(&self, entry: usize, word: usize) -> u64 {
        let mut bytes = [0; 8];
        let at = (entry * ENTRY + 8 * word) as u64;
        self.0.read_exact_at(&mut bytes, at).expect("the page");
        u64::from_ne_bytes(bytes)
    }

    /// Changes a word.
    ///
    /// # Panics
    /// If the page can't be written.
    pub fn set(&self, entry: usize, word: usize, value: u64) {
        let at = (entry * ENTRY + 8 * word) as u64;
        let written = self.0.write_all_at(&value.to_ne_bytes(), at);
        written.expect("the page");
    }

    /// Records that all threads have surely made.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.threads().map(|thread| self.get(thread, MADE)).sum()
    }

    /// The numbers of the threads.
    pub fn threads(&self) -> impl Iterator<Item = usize> + use<> {
        1..=(self.get(0, THREADS) as usize).min(ENTRIES - 1)
    }
}

/// Kinds of crashes, and where they happen.
pub mod crash {
    /// A write to an address that nothing has.
    pub const WRITE: u64 = 0;
    /// A read of one.
    pub const READ: u64 = 1;
    /// `abort`.
    pub const ABORT: u64 = 2;
    /// A stack that overflows.
    pub const OVERFLOW: u64 = 3;
    /// A panic while another one unwinds.
    pub const TWICE: u64 = 4;
    /// An instruction that is none.
    pub const ILLEGAL: u64 = 5;
    /// The signal itself, raised: SIGBUS, SIGFPE, SIGSYS, SIGSEGV.
    pub const RAISED: [(u64, i32); 4] = [
        (6, libc::SIGBUS),
        (7, libc::SIGFPE),
        (8, libc::SIGSYS),
        (9, libc::SIGSEGV),
    ];
    /// How many kinds there are.
    pub const KINDS: u64 = 10;

    /// In the midst of the program.
    pub const IN_CODE: u64 = 0;
    /// In the allocator, with its lock held.
    pub const IN_MALLOC: u64 = 1;
    /// By a signal from another thread, while the recorder is at work most of the time.
    pub const IN_RECORDER: u64 = 2;
    /// At the recorder's own store of a record: the thread's region is read-only from then on.
    pub const IN_COMMIT: u64 = 3;
    /// The same, and nobody in the process can read the region either.
    pub const UNREADABLE: u64 = 4;

    /// What the process dies of.
    #[must_use]
    pub fn signal(kind: u64) -> i32 {
        let raised = RAISED.iter().find(|(known, _)| *known == kind);
        match (kind, raised) {
            (_, Some((_, signal))) => *signal,
            (ABORT | OVERFLOW | TWICE, None) => libc::SIGABRT,
            (ILLEGAL, None) => libc::SIGILL,
            _ => libc::SIGSEGV,
        }
    }
}
