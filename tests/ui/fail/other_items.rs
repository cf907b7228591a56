//! Items that are not called.
use fdr::traced;

#[traced]
static LIMIT: u32 = 1;

#[traced]
const NAME: &str = "x";

#[traced]
use std::fmt;

#[traced]
macro_rules! nothing {
    () => {};
}

fn main() {}
