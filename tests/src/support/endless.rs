//! Runs the program `exact`, whose threads make calls until the program is killed. It counts them in a page of memory
//! that outlives the program.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::folder::Folder;
use super::program::{Program, Running};

/// Its threads: name and seed.
pub const THREADS: [(&str, u64); 4] = [("k0", 11), ("k1", 12), ("k2", 13), ("k3", 14)];

/// Starts the program, in that folder, its rings in `rings`; with variables more.
///
/// # Panics
///
/// If it does not begin.
#[must_use]
pub fn start(folder: &Folder, variables: &str) -> Running {
    fs::create_dir(folder.join("rings")).expect("a folder");
    let threads = THREADS.map(|(name, seed)| format!("{name}:{seed}:{}", u64::MAX));
    let mut program = Program::named("exact", folder)
        .set("FDR=1 FDR_DIR=rings/")
        .set(variables)
        .args(&["--page", "page", &threads.join(",")])
        .start();
    assert_eq!(program.line(), "ready");
    program
}

/// Records that the thread at that place has surely made.
///
/// # Panics
///
/// If there is no page.
#[must_use]
pub fn surely_made(folder: &Folder, place: usize) -> u64 {
    let page = File::open(folder.join("page")).expect("the page");
    let mut bytes = [0; 8];
    page.read_exact_at(&mut bytes, 64 * place as u64)
        .expect("the page is long enough");
    u64::from_ne_bytes(bytes)
}

/// The only file in `rings`.
///
/// # Panics
///
/// If there is none, or more than one.
#[must_use]
pub fn only_ring(folder: &Folder) -> PathBuf {
    folder.only_file("rings", "")
}
