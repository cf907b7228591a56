//! Two mistakes at once are both reported.
use fdr::traced;

#[traced(nmae = "x")]
struct Thing;

fn main() {}
