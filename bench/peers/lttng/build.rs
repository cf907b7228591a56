//! The work in C, by gcc with calls at entry and exit, of which LTTng's preloaded library has its own.

fn main() {
    peer_native::compile("gcc", &["-finstrument-functions"]);
}
