//! Scopes in which the attribute does nothing, and others in which it does what was asked.
#![deny(deprecated)]
use fdr::traced;

struct Point {
    x: u32,
}

#[traced]
impl Point {
    const fn new() -> Self {
        Point { x: 0 }
    }

    fn x(&self) -> u32 {
        self.x
    }
}

#[traced(min_statements = 3)]
mod short {
    pub(super) fn one() {}
}

#[traced(always)]
impl Point {
    fn y(&self) -> u32 {
        self.x
    }
}

#[traced]
mod chosen {
    #[fdr::traced]
    pub(super) fn one() {}

    pub(super) fn other() {}
}

#[traced]
mod without_functions {
    pub(super) const ONE: u32 = 1;
}

fn main() {
    let point = Point::new();
    short::one();
    chosen::one();
    chosen::other();
    println!("{} {} {}", point.x(), point.y(), without_functions::ONE);
}
