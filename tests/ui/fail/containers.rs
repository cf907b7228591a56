//! The attribute goes on each function, not around them.
use fdr::traced;

struct Point;

#[traced]
impl Point {
    fn x(&self) {}
}

#[traced]
pub trait Shape {}

#[traced]
mod inner {}

#[traced]
unsafe extern "C" {
    fn abs(x: i32) -> i32;
}

fn main() {}
