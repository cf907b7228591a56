//! Paths that are none.
use fdr::traced;

#[traced(crate)]
fn no_value() {}

#[traced(crate = "fdr")]
fn in_quotes() {}

#[traced(crate = 3)]
fn a_number() {}

#[traced(crate = fdr::<u8>)]
fn generic() {}

#[traced(crate = fdr name = "x")]
fn no_comma() {}

fn main() {}
