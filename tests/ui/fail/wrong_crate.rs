//! A path that leads nowhere is reported where it is written.
use fdr::traced;

#[traced(crate = nowhere::fdr)]
fn function() {}

fn main() {}
