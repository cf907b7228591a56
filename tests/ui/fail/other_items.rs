//! Items that are not called.
#![allow(unused)]
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
