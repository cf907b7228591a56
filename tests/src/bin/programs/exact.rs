//! Calls whose number and order are known. Each argument is a wave of threads that run at once: `NAME:SEED:CALLS,…`.
//! The next wave begins when all of them have ended. Every function counts its own calls; the counts and the recorder's
//! are printed at the end. With `--page FILE` first, each thread also keeps its number of surely made records in that
//! file: 8 bytes, at 64 times its place in the wave.

use std::sync::Barrier;
use std::thread;

use fdr::traced;
use fdr_tests::programs::page::{self, Entry, Page};
use fdr_tests::support::facts;
use fdr_tests::support::script::{FUNCTIONS, Script};
use fdr_tests::support::truth::{ENTRIES, MADE, Truth};

struct Walk<'a> {
    script: Script,
    calls: [u64; FUNCTIONS.len()],
    edges: u64,
    progress: &'a Entry,
}

impl Walk<'_> {
    /// The record that was just asked for is made.
    fn made(&mut self) {
        self.edges += 1;
        self.progress.set(MADE, self.edges);
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

/// The file as memory that outlives the process; without a file, plain memory.
fn page(path: Option<&str>) -> Page {
    let Some(path) = path else {
        return Box::leak(Box::new([const { Entry::new() }; ENTRIES]));
    };
    Truth::create(path.as_ref()).expect("the page's file");
    page::open(path)
}

fn wave(threads: &str, page: Page) {
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

pub(crate) fn main(words: &[&str]) {
    let (path, waves) = match words {
        ["--page", path, waves @ ..] => (Some(*path), waves),
        waves => (None, waves),
    };
    let page = page(path);
    println!("ready");
    for threads in waves {
        wave(threads, page);
    }
    print!("{}", facts::of_statistics(&fdr::statistics()));
}
