//! The value of a gauge is a number.

fn main() {
    fdr::gauge!("queue", "seven");
}
