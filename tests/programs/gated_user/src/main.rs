//! Calls a library that may be recorded.

fn main() {
    println!("{} {:?}", gated::sum_below(20), gated::one_more(1));
}
