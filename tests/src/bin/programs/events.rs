//! Records events, counters and spans of every kind. Tests record it and look at the trace.
//!
//! ```text
//! events ROUNDS [kill]
//! ```
//! Each round is a traced call with a span, an event and a counter, besides short calls. `kill`: the program kills
//! itself at the end.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::panic::catch_unwind;

use fdr_tests::programs::threads::{self, kill_process};
use fdr_tests::support::facts;

/// A value that must not be evaluated unless its event is recorded.
fn evaluated() -> u32 {
    println!("evaluated");
    1
}

#[fdr::traced]
fn short(number: u64) -> u64 {
    black_box(number)
}

#[fdr::traced]
fn round(number: u64) {
    black_box((0..10).map(short).sum::<u64>());
    let _span = fdr::span!("inside", number);
    fdr::event!(
        "round",
        number,
        even = number.is_multiple_of(2),
        name = "a round"
    );
    fdr::gauge!("rounds", number);
    let _short = fdr::span!("without fields");
}

/// Every form of a field, and everything that a reader must take as text.
fn every_form() {
    let (id, path, r#type) = (7_u8, std::path::Path::new("/a"), "raw");
    fdr::event!(trace: "forms", id, signed = -1, float = 0.5, truth = true, %id, ?path, r#type,);
    fdr::event!(debug: "texts", owned = String::from("x"), display = %1.5, debug = ?Some(1), letter = 'c');
    fdr::event!(info: "hostile", text = "<b>\u{202e}\0\x1b[31m\n#");
    fdr::event!(error: "long", text = "ä".repeat(32 * 1024), after = 7);
    fdr::event!(warn: "no fields");
    // Arguments may leave the function, and are evaluated once.
    let leaves = || -> Option<u32> {
        fdr::event!("leaves", value = None::<u32>?);
        Some(1)
    };
    println!("left {}", leaves().is_none());
    fdr::event!("left out", value = evaluated());
    fdr::gauge!("left out too", evaluated());
    let _span = fdr::span!("span left out", value = evaluated());
}

fn panics() {
    let caught = catch_unwind(|| {
        let _span = fdr::span!("unwound", value = 1);
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(caught.is_err());
}

pub(crate) fn main(words: &[&str]) {
    let rounds = words.first().and_then(|word| word.parse().ok());
    every_form();
    panics();
    threads::run("other", || fdr::event!("only an event"));
    (0..rounds.unwrap_or(1)).for_each(round);
    print!("{}", facts::of_statistics(&fdr::statistics()));
    if words.get(1) == Some(&"kill") {
        kill_process();
    }
}
