//! Names that are none.
use fdr::traced;

#[traced(name)]
fn no_value() {}

#[traced(name = )]
fn nothing_after_the_sign() {}

#[traced(name = x)]
fn not_a_literal() {}

#[traced(name = 3)]
fn not_text() {}

#[traced(name = "")]
fn empty() {}

#[traced(name = "a\nb")]
fn two_lines() {}

fn main() {}
