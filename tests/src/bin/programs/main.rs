//! The programs that tests record and kill, as one: `programs NAME [ARGUMENT…]`. Each of them is a file, because a program
//! for each would be linked with the recorder and all formats. The folder above has those that need a program of their
//! own: for their allocator, their size, their names, the times of their calls, what they do around `main`, or because they
//! have no recorder.

mod api;
mod arguments;
mod controlled;
mod crowd;
mod cut_ring;
mod endings;
mod events;
mod exact;
mod faulty;
mod forks;
mod forks_hooks;
mod forks_odd;
mod handlers;
mod identity;
mod leaderless;
mod leaves;
mod locks;
mod mapped;
mod open_calls;
mod parking_locks;
mod planted;
mod roomless;
mod signalled;
mod spans;
mod states;
mod steady;
mod stepped;
mod streamer;
mod tasks;
mod triggered;
mod unwinding;

use std::env;

/// What gets the arguments behind the name.
type Main = fn(&[&str]);

const PROGRAMS: [(&str, Main); 31] = [
    ("api", api::main),
    ("arguments", arguments::main),
    ("controlled", controlled::main),
    ("crowd", crowd::main),
    ("cut_ring", cut_ring::main),
    ("endings", endings::main),
    ("events", events::main),
    ("exact", exact::main),
    ("faulty", faulty::main),
    ("forks", forks::main),
    ("forks_hooks", forks_hooks::main),
    ("forks_odd", forks_odd::main),
    ("handlers", handlers::main),
    ("identity", identity::main),
    ("leaderless", leaderless::main),
    ("leaves", leaves::main),
    ("locks", locks::main),
    ("mapped", mapped::main),
    ("open_calls", open_calls::main),
    ("parking_locks", parking_locks::main),
    ("planted", planted::main),
    ("roomless", roomless::main),
    ("signalled", signalled::main),
    ("spans", spans::main),
    ("states", states::main),
    ("steady", steady::main),
    ("stepped", stepped::main),
    ("streamer", streamer::main),
    ("tasks", tasks::main),
    ("triggered", triggered::main),
    ("unwinding", unwinding::main),
];

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, words) = words.split_first().expect("programs NAME [ARGUMENT…]");
    let known = PROGRAMS.iter().find(|(known, _)| known == name);
    let (_, main) = known.unwrap_or_else(|| panic!("no such program: {name:?}"));
    main(words);
}
