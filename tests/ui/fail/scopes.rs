//! Scopes that hold no functions of ours, and options in the wrong place.
use fdr::traced;

struct Point;

#[traced]
unsafe extern "C" {
    fn abs(x: i32) -> i32;
}

#[traced(name = "point")]
impl Point {
    fn x(&self) {}
}

#[traced]
#[traced]
impl Point {
    fn y(&self) {}
}

#[traced(min_statements = 2)]
fn one_function() {}

#[traced(always, skip_inline)]
mod contradiction {}

#[traced(skip, untimed)]
mod more_than_skip {}

#[traced(min_statements = "two")]
trait Shape {}

#[traced(untimd)]
mod misspelt {}

#[traced]
impl Point {
    #[traced(unknown)]
    fn z(&self) {}
}

#[traced]
mod types {
    pub(super) fn wrong() -> u32 {
        for _ in 0..1 {}
        "text"
    }
}

fn main() {}
