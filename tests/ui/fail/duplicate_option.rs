//! Options given twice.
use fdr::traced;

#[traced(name = "x", name = "y")]
fn named_twice() {}

#[traced(crate = fdr, name = "x", crate = ::fdr)]
fn placed_twice() {}

fn main() {}
