//! Threads that call traced functions as a course says, each record told to the page when it is made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use fdr::traced;
use fdr_tests::support::course::Course;
use fdr_tests::support::script::{FUNCTIONS, Script};
use fdr_tests::support::truth::{CALLS, ENTRIES, LIFE, MADE, STOP, THREADS};

use crate::page::{Entry, Page};

pub(crate) struct Walk<'a> {
    script: Script,
    truth: &'a Entry,
    /// Called after each record.
    each: &'a mut dyn FnMut(),
}

impl Walk<'_> {
    /// The record that was just asked for is made.
    fn made(&mut self) {
        self.truth.count(MADE);
        (self.each)();
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
    ($($name:ident)*) => {$(
        #[traced]
        fn $name(walk: &mut Walk<'_>, depth: usize) {
            walk.made();
            body(walk, depth);
        }
    )*};
}

functions! { alpha beta gamma delta }

/// Runs a course to its end, or to the end of a part of it when the page says to stop.
pub(crate) fn run(course: Course, truth: &Entry, stop: &Entry, each: &mut dyn FnMut()) {
    truth.set(CALLS, course.calls());
    truth.set(LIFE, 1);
    for number in 0.. {
        let Some(script) = course.part(number).filter(|_| stop.get(STOP) == 0) else {
            break;
        };
        let mut walk = Walk {
            script,
            truth,
            each,
        };
        body(&mut walk, 0);
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

/// A thread of that number, named `n` and the number, that makes so many calls.
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
