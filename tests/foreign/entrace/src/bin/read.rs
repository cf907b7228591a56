//! Prints every entry of an ENTRACE file, or of a program that connects, as ENTRACE's own readers have
//! it: `read load PATH COUNT`, `read listen VERSION COUNT`.

use std::path::Path;

use fdr_foreign_entrace::{Error, one, two};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, which, count] = &arguments[..] else {
        return Err("usage: read load PATH COUNT, read listen VERSION COUNT".into());
    };
    let count = count.parse()?;
    if what == "load" {
        let path = Path::new(which);
        match std::fs::read(path)?.get(8) {
            Some(1) => one::load(path, count),
            _ => two::load(path, count),
        }
    } else if which == "1" {
        one::listen(count)
    } else {
        two::listen(count)
    }
}
