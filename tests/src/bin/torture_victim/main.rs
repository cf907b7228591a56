//! A program to be killed, crashed, signalled, forked and snapshotted: `torture_victim MODE PAGE SEED …`. The calls of
//! its threads follow from the seed. The page, a file in shared memory that outlives the program, has how many calls
//! each thread has made. The recorder has no part in these counts.

mod crash;
mod descriptors;
mod dumps;
mod forks;
mod noted;
mod storm;
mod walk;

use std::env;

use fdr_tests::support::facts::number;

fn main() {
    // A victim must not outlive its driver. SAFETY: a plain system call on this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let words: Vec<String> = env::args().skip(1).collect();
    let page = fdr_tests::programs::page::open(&words[1]);
    noted::begin(page);
    let seed = number(&words[2]);
    let values: Vec<u64> = words[3..].iter().map(|word| number(word)).collect();
    match words[0].as_str() {
        "storm" => storm::run(page, seed, values[0], values[1]),
        "dumps" => dumps::run(page, seed, values[0], values[1]),
        "forks" => forks::run(page, seed, values[0], values[1]),
        "crash" => crash::run(page, seed, values[0], values[1]),
        "descriptors" => descriptors::run(page, seed, values[0], values[1]),
        other => panic!("no such mode: {other:?}"),
    }
}
