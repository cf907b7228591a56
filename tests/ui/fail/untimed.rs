//! `untimed` is a word of its own, once.
use fdr::traced;

#[traced(untimed = true)]
fn with_a_value() {}

#[traced(untimed(clock))]
fn with_a_list() {}

#[traced(untimed, name = "x", untimed)]
fn given_twice() {}

#[traced(untimed name = "x")]
fn without_a_comma() {}

fn main() {}
