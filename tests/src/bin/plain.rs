//! A small program with one traced function and one call of the API, built with the recorder and without it. Without
//! the recorder, or with `FDR` unset, it must do nothing else.

use std::thread;

#[fdr::traced]
fn greet(name: &str) -> String {
    format!("Hello, {name}!")
}

fn main() {
    let other = thread::spawn(|| greet("thread"));
    println!("{}", greet("main"));
    println!("{}", other.join().unwrap_or_default());
    if fdr::is_enabled() {
        println!("recording");
    }
}
