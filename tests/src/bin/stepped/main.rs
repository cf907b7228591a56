//! `stepped SEED ROUNDS [apart]`: see `steps`.

mod steps;

use std::env;

fn main() {
    let number = |at: usize| env::args().nth(at).and_then(|text| text.parse().ok());
    let apart = env::args().nth(3).is_some_and(|word| word == "apart");
    steps::run(number(1).unwrap_or(1), number(2).unwrap_or(1), apart);
}
