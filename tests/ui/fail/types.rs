//! Types are not called.
use fdr::traced;

#[traced]
pub struct Point {
    x: u32,
}

#[traced]
enum Kind {}

#[traced]
union Bits {
    a: u8,
}

#[traced]
type Number = u32;

fn main() {}
