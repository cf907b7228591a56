//! The value of a counter is a number.

fn main() {
    fdr::counter!("queue", "seven");
}
