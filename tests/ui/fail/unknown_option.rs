//! Options that do not exist.
use fdr::traced;

#[traced(nmae = "x")]
fn misspelt() {}

#[traced("x")]
fn without_a_key() {}

#[traced(instrument)]
fn of_another_library() {}

fn main() {}
