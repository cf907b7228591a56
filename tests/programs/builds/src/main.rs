//! Calls traced functions and prints how often. With the word `panic`, one more call ends by a panic.

fn main() {
    let sum = builds::work(40);
    builds::print_counts();
    assert_ne!(sum, 0);
    if std::env::args().nth(1).as_deref() == Some("panic") {
        builds::panic();
    }
}
