//! Values that can't be shown: their `Debug` panics. The body of the function runs as it does without the recorder.

use std::fmt;
use std::panic;

use fdr::traced;

use crate::{NamedAction, leaf, say};

pub(crate) const WAYS: &[NamedAction] = &[
    ("argument-that-panics", argument),
    ("result-that-panics", result),
    ("error-that-panics", error),
    ("event-that-panics", event),
];

struct Unshown(u64);

impl fmt::Debug for Unshown {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("it can't be shown")
    }
}

impl fmt::Display for Unshown {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("it can't be shown")
    }
}

#[traced(args(value = ?value))]
fn takes(value: &Unshown) -> u64 {
    say("the body runs");
    leaf(value.0)
}

#[traced(ret = ?)]
fn gives(number: u64) -> Unshown {
    Unshown(leaf(number))
}

#[traced(err)]
fn fails(number: u64) -> Result<u64, Unshown> {
    Err(Unshown(leaf(number)))
}

/// Whether it panics, and whether the hook is called for that.
fn print_call(body: impl FnOnce() -> u64) {
    panic::set_hook(Box::new(|_| say("the hook is called")));
    let ended = panic::catch_unwind(panic::AssertUnwindSafe(body));
    say(format_args!("{:?}", ended.ok()));
}

fn argument() {
    print_call(|| takes(&Unshown(7)));
}

fn result() {
    print_call(|| gives(7).0);
}

fn error() {
    print_call(|| fails(7).map_or_else(|error| error.0, leaf));
}

fn event() {
    leaf(1);
    print_call(|| {
        let value = Unshown(7);
        fdr::event!("odd", value = ?value, again = %value);
        leaf(value.0)
    });
}
