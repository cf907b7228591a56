//! `stepped SEED ROUNDS [apart|events|tasks]`: see `steps`.

mod steps;

use std::env;

fn main() {
    let number = |at: usize| env::args().nth(at).and_then(|text| text.parse().ok());
    let how = match env::args().nth(3).as_deref() {
        Some("apart") => steps::SideWork::Apart,
        Some("events") => steps::SideWork::Events,
        Some("tasks") => steps::SideWork::Tasks,
        _ => steps::SideWork::Calls,
    };
    steps::run(number(1).unwrap_or(1), number(2).unwrap_or(1), how);
}
