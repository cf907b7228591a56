//! A traced function with an event, and `main`: what the recorder adds to a program is seen beside nothing else. Must
//! stay that small.

#[fdr::traced]
fn work(number: usize) -> usize {
    fdr::event!("lean", number);
    number + 1
}

fn main() {
    println!("{}", work(std::env::args().count()));
}
