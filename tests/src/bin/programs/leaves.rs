//! Timed calls with untimed ones in them: `leaves ROUNDS`. A round is a timed call of `work`. It makes 100 calls of an
//! untimed leaf, and one call of an untimed function that calls a timed one.

use std::hint::black_box;

use fdr::traced;
use fdr_tests::support::facts;

#[traced(untimed)]
#[inline(never)]
fn leaf(number: u64) -> u64 {
    black_box(number).rotate_left(7)
}

#[traced]
#[inline(never)]
fn inner(number: u64) -> u64 {
    (0..1000).fold(number, |sum, more| black_box(sum ^ more))
}

#[traced(untimed)]
#[inline(never)]
fn through(number: u64) -> u64 {
    (0..1000).fold(inner(number), |sum, more| black_box(sum ^ more))
}

#[traced]
#[inline(never)]
fn work(number: u64) -> u64 {
    (0..100).fold(through(number), |sum, _| leaf(sum))
}

pub(crate) fn main(words: &[&str]) {
    let rounds = words.first().map_or(1, |rounds| facts::number(rounds));
    println!("{}", (0..rounds).fold(1, |sum, _| work(sum)));
}
