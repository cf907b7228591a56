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
/// Word of a thread: 1 = the thread has begun, 2 = it has made its last record.
pub const LIFE: usize = 1;
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

/// Word of the program: the phase that it has reached.
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
/// Word of the program: how often its lock was taken. Each holder counts itself.
pub const LOCKED: usize = 7;

/// How a program records.
pub mod way {
    /// Functions alone.
    pub const PLAIN: u64 = 0;
    /// It uses everything that the recorder offers, and each call leaves its records.
    pub const NOTED: u64 = 1;
    /// The same, but short calls leave no records.
    pub const NOTED_AND_SHORT: u64 = 2;
    /// Functions alone, some of which are only counted after a while.
    pub const COUNTED: u64 = 3;

    /// Whether the program uses all that the recorder has.
    #[must_use]
    pub fn is_noted(way: u64) -> bool {
        matches!(way, NOTED | NOTED_AND_SHORT)
    }
}

/// A second name of a program's ring, in its folder. The link keeps the ring readable after its first name is
/// removed.
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
    pub fn surely_made(&self) -> u64 {
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
    /// The same, and no thread of the process can read the region either.
    pub const UNREADABLE: u64 = 4;
    /// These places, for people.
    pub const PLACES: [&str; 5] = [
        "in code",
        "in malloc",
        "from outside",
        "at a record's store",
        "at a record's store, region unreadable",
    ];

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

/// A program that uses all descriptor numbers as its own: its settings, and the words of its page.
pub mod descriptors {
    /// Numbers that it closes, and opens its own files at.
    pub const NUMBERS: u64 = 1024;
    /// Threads, of which each has a share of the numbers.
    pub const THREADS: u64 = 4;
    /// Files: two for each thread, one for children, one for threads with a descriptor table of their own.
    pub const FILES: u64 = 2 * THREADS + 2;
    /// The file of children.
    pub const OF_CHILDREN: u64 = 2 * THREADS;
    /// The file of threads with a table of their own.
    pub const OF_OTHERS: u64 = OF_CHILDREN + 1;
    /// The length of a file that is written again and again; others grow.
    pub const WHOLE: u64 = 64 << 10;

    /// Entry of the first file.
    pub const FIRST_FILE: usize = 16;
    /// Word of a file: bytes that are surely written.
    pub const SURE: usize = 0;
    /// Word of a file: bytes that may be written.
    pub const MAX: usize = 1;
    /// Entry of the first kind of [`round`].
    pub const FIRST_KIND: usize = 64;
    /// Word of a kind: how many rounds had it.
    pub const TIMES: usize = 0;
    /// Entry and word: the round whose child may go on.
    pub const GO: (usize, usize) = (FIRST_KIND - 1, 0);
    /// Where a program says what was wrong.
    pub const WRONG_FILE: &str = "wrong";

    /// Bit: the numbers 0 to 2 are for its files, too.
    pub const FROM_ZERO: u64 = 1;
    /// Bit: it leaves its terminal after the first round, and waits at the end for a command to continue.
    pub const LEAVES: u64 = 2;
    /// Bit: `fdr::dump` makes a trace.
    pub const DUMPS: u64 = 4;

    /// Where the number of its [end] begins, and the bits of what it does in its rounds.
    pub const END: u32 = 8;
    /// The bits of [`rounds`](round) that it may have.
    pub const ROUNDS: u32 = 16;

    /// How it ends.
    pub mod end {
        /// `main` returns.
        pub const RETURN: u64 = 0;
        /// `exit` in another thread, while all work.
        pub const EXIT: u64 = 1;
        /// A fault, while all work.
        pub const FAULT: u64 = 2;
        /// `abort`, while all work.
        pub const ABORT: u64 = 3;
        /// `_exit`.
        pub const AT_ONCE: u64 = 4;
        /// Another program, which a thread executes.
        pub const EXEC: u64 = 5;
        /// How many ends there are.
        pub const ENDS: u64 = 6;
    }

    /// What happens in a round, by bit.
    pub mod round {
        /// The dump signal.
        pub const SIGNAL: u64 = 0;
        /// `fdr::dump`.
        pub const CALL: u64 = 1;
        /// A panic that is caught.
        pub const PANIC: u64 = 2;
        /// A call that is slow enough for a trigger.
        pub const SLOW: u64 = 3;
        /// New threads, and rings that grow.
        pub const GROWTH: u64 = 4;
        /// A child of `fork` that records.
        pub const FORK: u64 = 5;
        /// A child that shares the memory, as that of `vfork`.
        pub const VFORK: u64 = 6;
        /// `posix_spawn`.
        pub const SPAWN: u64 = 7;
        /// A child that shares the descriptors.
        pub const SHARING: u64 = 8;
        /// A thread that has descriptors of its own.
        pub const APART: u64 = 9;
        /// A pipe, whose reader waits for the end.
        pub const PIPE: u64 = 10;
        /// How many there are.
        pub const KINDS: u64 = 11;
        /// Names for people.
        pub const NAMES: [&str; KINDS as usize] = [
            "dump signals",
            "calls of dump",
            "panics",
            "slow calls",
            "growths",
            "children of fork",
            "children of vfork",
            "spawned programs",
            "children that share descriptors",
            "threads with descriptors of their own",
            "pipes",
        ];
    }

    /// The name of a file.
    #[must_use]
    pub fn name(file: u64) -> String {
        format!("own.{file}")
    }

    /// What a file has at an offset.
    #[must_use]
    pub fn byte(file: u64, offset: u64) -> u8 {
        let mixed = (offset + (file << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 56) as u8
    }

    /// What a program prints in a round.
    #[must_use]
    pub fn line(round: u64) -> String {
        format!("round {round} of the program's own\n")
    }
}
