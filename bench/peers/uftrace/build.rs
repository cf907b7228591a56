//! The work in C, by gcc with calls of `mcount`, of which uftrace's library has its own.

fn main() {
    peer_native::compile("gcc", &["-pg"]);
}
