//! Calls that alternate between functions of two versions of the recorder, and how many there were.

use std::thread;

#[fdr::traced]
fn ours(depth: u32) -> u32 {
    match depth {
        0 => 1,
        _ => two_versions_library::theirs(2) + ours(depth - 1),
    }
}

fn main() {
    let threads = [10_000, 100].map(|depth| {
        thread::spawn(move || {
            for _ in 0..depth {
                ours(9);
            }
        })
    });
    threads.map(|thread| thread.join().expect("its end"));
    println!("two_versions::ours {}", 10_100 * 10);
    println!("two_versions_library::theirs {}", 10_100 * 9 * 3);
}
