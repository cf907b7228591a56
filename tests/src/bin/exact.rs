//! Calls whose number and order are known. Each argument is a wave of threads that run at once: `NAME:SEED:CALLS,…`.
//! The next wave begins when all of them have ended. Every function counts its own calls; the counts and the recorder's
//! are printed at the end. With `--page FILE` first, each thread also keeps its number of surely made records in that
//! file: 8 bytes, at 64 times its place in the wave.

use std::env;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fdr::traced;
use fdr_tests::support::facts;
use fdr_tests::support::script::{FUNCTIONS, Script};

/// Threads of a wave.
const MAX: usize = 16;

#[repr(align(64))]
struct Progress(AtomicU64);

struct Walk<'a> {
    script: Script,
    calls: [u64; FUNCTIONS.len()],
    edges: u64,
    progress: &'a Progress,
}

impl Walk<'_> {
    /// The record that was just asked for is made.
    fn made(&mut self) {
        self.edges += 1;
        self.progress.0.store(self.edges, Ordering::Release);
    }
}

fn body(walk: &mut Walk<'_>, depth: usize) {
    const CALLS: [fn(&mut Walk<'_>, usize); FUNCTIONS.len()] = [alpha, beta, gamma, delta];
    while let Some(function) = walk.script.step(depth) {
        CALLS[function](walk, depth + 1);
        walk.made();
    }
}

macro_rules! functions {
    ($($name:ident = $number:literal $(($option:ident))?)*) => {$(
        #[traced($($option)?)]
        fn $name(walk: &mut Walk<'_>, depth: usize) {
            walk.made();
            walk.calls[$number] += 1;
            body(walk, depth);
        }
    )*};
}

functions! { alpha = 0 beta = 1 gamma = 2 (untimed) delta = 3 }

/// The file's first page as memory that outlives the process; without a file, plain memory.
fn page(path: Option<String>) -> &'static [Progress; MAX] {
    const BYTES: usize = size_of::<[Progress; MAX]>();
    let Some(path) = path else {
        let page = [const { Progress(AtomicU64::new(0)) }; MAX];
        return Box::leak(Box::new(page));
    };
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    let file = file.expect("the page's file");
    file.set_len(BYTES as u64).expect("space for the page");
    // SAFETY: a new shared mapping of a file that was just made so long; it is never unmapped, zeros
    // are valid atomics, and pages are aligned to more than 64.
    unsafe {
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        let page = libc::mmap(
            std::ptr::null_mut(),
            BYTES,
            protection,
            libc::MAP_SHARED,
            fd,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<[Progress; MAX]>()
    }
}

fn wave(threads: &str, page: &'static [Progress; MAX]) {
    let threads: Vec<&str> = threads.split(',').collect();
    let barrier = &Barrier::new(threads.len());
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (thread, progress) in threads.iter().zip(page) {
            let words: Vec<&str> = thread.split(':').collect();
            let (name, seed) = (words[0], facts::number(words[1]));
            let calls = facts::number(words[2]);
            let run = move || {
                barrier.wait();
                let mut walk = Walk {
                    script: Script::new(seed, calls),
                    calls: [0; FUNCTIONS.len()],
                    edges: 0,
                    progress,
                };
                body(&mut walk, 0);
                let [a, b, c, d] = walk.calls;
                println!("counted {name} {a} {b} {c} {d}");
            };
            let builder = thread::Builder::new().name(name.to_owned());
            running.push(builder.spawn_scoped(scope, run).expect("a thread"));
        }
        // The end of a scope would wait for the closures only, not for the threads' own ends.
        for thread in running {
            thread.join().expect("its end");
        }
    });
}

fn main() {
    let mut arguments = env::args().skip(1).peekable();
    let path = arguments
        .next_if(|word| word == "--page")
        .and_then(|_| arguments.next());
    let page = page(path);
    println!("ready");
    for threads in arguments {
        wave(&threads, page);
    }
    print!("{}", facts::of_statistics(&fdr::statistics()));
}
