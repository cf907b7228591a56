//! A program that uses a traced library (`sorting`, in lib.rs) and traces functions of its own.
//! Both appear in one trace under their own crates' names; a filter picks either:
//!
//! ```text
//! FDR=1 target/release/examples/library
//! FDR='sorting::*,-sorting::is_sorted' target/release/examples/library
//! ```

use fdr::traced;
use sorting::{InsertionSort, MergeSort, Sort, is_sorted};

#[traced]
fn numbers(count: u32) -> Vec<u32> {
    (0..count)
        .map(|at| at.wrapping_mul(2_654_435_761) >> 7)
        .collect()
}

#[traced]
fn words(count: u32) -> Vec<String> {
    numbers(count)
        .into_iter()
        .map(|number| format!("{number:x}"))
        .collect()
}

fn main() {
    let numbers = MergeSort::default().sorted(&numbers(100_000));
    let words = MergeSort { small: 8 }.sorted(&words(10_000));
    let few = InsertionSort.sorted(&words[..500]);
    let good = is_sorted(&numbers) && is_sorted(&words) && is_sorted(&few);
    println!(
        "{} numbers, {} and {} words: {good}",
        numbers.len(),
        words.len(),
        few.len()
    );
}
