//! Threads that call traced functions in the order of a course. They count each record in the page when they make it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use fdr::traced;
use fdr_tests::programs::page::{Entry, Page};
use fdr_tests::support::course::{Course, EVERY};
use fdr_tests::support::script::Script;
use fdr_tests::support::truth::{CALLS, ENTRIES, LIFE, MADE, STOP, THREADS};

use crate::noted::{self, Functions};

pub(crate) struct Walk<'a> {
    script: Script,
    truth: &'a Entry,
    /// Called after each record.
    each: &'a mut dyn FnMut(),
    /// Of a thread that leaves notes: edges of its scripts so far.
    noted: Option<u64>,
}

impl Walk<'_> {
    /// Records that are surely made.
    pub(crate) fn so_far(&self) -> u64 {
        self.truth.get(MADE)
    }

    /// The record that was just asked for is made.
    pub(crate) fn made(&mut self) {
        self.truth.count(MADE);
        (self.each)();
    }

    /// The same of an edge of the script.
    fn stepped(&mut self) {
        self.made();
        if let Some(edges) = &mut self.noted {
            *edges += 1;
            if *edges % EVERY == 0 {
                let serial = *edges / EVERY - 1;
                noted::block(self, serial);
            }
        }
    }
}

fn body(walk: &mut Walk<'_>, depth: usize) {
    const PLAIN: Functions = [alpha, beta, gamma, delta];
    let functions = match walk.noted {
        Some(_) => noted::FUNCTIONS,
        None => PLAIN,
    };
    while let Some(function) = walk.script.step(depth) {
        functions[function](walk, depth + 1);
        walk.stepped();
    }
}

/// The body of a function of scripts.
pub(crate) fn inside(walk: &mut Walk<'_>, depth: usize) {
    walk.stepped();
    body(walk, depth);
}

macro_rules! functions {
    ($($name:ident)*) => {$(
        #[traced]
        fn $name(walk: &mut Walk<'_>, depth: usize) -> u64 {
            inside(walk, depth);
            0
        }
    )*};
}

functions! { alpha beta gamma delta }

/// Runs a course to its end, or to the end of a part of it when the page says to stop.
pub(crate) fn run(course: Course, truth: &Entry, stop: &Entry, each: &mut dyn FnMut()) {
    truth.set(CALLS, course.calls());
    truth.set(LIFE, 1);
    let mut noted = noted::is_on().then_some(0);
    for number in 0.. {
        let Some(script) = course.part(number).filter(|_| stop.get(STOP) == 0) else {
            break;
        };
        let mut walk = Walk {
            script,
            truth,
            each,
            noted,
        };
        body(&mut walk, 0);
        noted = walk.noted;
    }
    truth.set(LIFE, 2);
}

/// The next thread's number; `None` when the page is full.
pub(crate) fn next_number(page: Page) -> Option<usize> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) as usize + 1;
    if number >= ENTRIES {
        return None;
    }
    // Numbers come in order only roughly; the page says the greatest.
    page[0].raise(THREADS, number as u64);
    Some(number)
}

/// Starts the thread with that number, which makes `calls` calls. Its name is `n` and the number.
pub(crate) fn spawn(
    page: Page,
    seed: u64,
    number: usize,
    calls: u64,
    each: impl FnMut() + Send + 'static,
) -> JoinHandle<()> {
    let truth = &page[number];
    let course = Course::new(seed.wrapping_add(number as u64), calls);
    let mut each = each;
    let body = move || run(course, truth, &page[0], &mut each);
    let builder = Builder::new().name(format!("n{number}"));
    builder.spawn(body).expect("a thread")
}
