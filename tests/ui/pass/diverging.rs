//! Functions that never come back.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;
use std::panic;

#[traced]
fn panics(text: &str) -> ! {
    panic!("{text}")
}

#[traced]
fn calls_another(text: &str) -> ! {
    panics(text);
}

#[traced]
fn endless() -> ! {
    let mut turns = 0;
    loop {
        turns += 1;
        if turns == 3 {
            exits();
        }
    }
}

#[traced]
fn exits() -> ! {
    std::process::exit(0)
}

#[traced]
fn in_one_branch(x: Option<u32>) -> u32 {
    let Some(x) = x else { panics("none") };
    x
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    assert!(panic::catch_unwind(|| calls_another("x")).is_err());
    assert!(panic::catch_unwind(|| in_one_branch(None)).is_err());
    assert_eq!(in_one_branch(Some(1)), 1);
    endless()
}
