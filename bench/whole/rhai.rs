//! A workload of the script engine rhai: it evaluates a given script a given number of times, and prints its values.
//! `cargo xtask bench whole` builds it beside the engine's sources.

use rhai::{Engine, INT};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let script = arguments.next().expect("a script's path");
    let times: u32 = arguments
        .next()
        .and_then(|word| word.parse().ok())
        .expect("a number of times");
    let engine = Engine::new();
    let script = engine
        .compile_file(script.into())
        .expect("the script can be compiled");
    for _ in 0..times {
        println!(
            "{}",
            engine
                .eval_ast::<INT>(&script)
                .expect("the script has no error")
        );
    }
}
