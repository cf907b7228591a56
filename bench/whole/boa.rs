//! A workload of the script engine boa: it evaluates a given script a given number of times, and prints its values.
//! `cargo xtask bench whole` builds it beside the engine's sources.

use boa_engine::{Context, Source};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let script = arguments.next().expect("a script's path");
    let text = std::fs::read(&script).expect("the script can be read");
    let times: u32 = arguments
        .next()
        .and_then(|word| word.parse().ok())
        .expect("a number of times");
    for _ in 0..times {
        let mut context = Context::default();
        let value = context.eval(Source::from_bytes(&text));
        println!("{}", value.expect("the script has no error").display());
    }
}
