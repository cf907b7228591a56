//! How the programs tell their tests what happened: lines of `KEY WORD WORD …` on standard output.
//! Printed by one side and parsed by the other, so both are here.

use std::fmt::Write as _;
use std::str::FromStr;

use fdr::{Statistics, ThreadStatistics};

/// The recorder's statistics as lines.
#[must_use]
pub fn of_statistics(statistics: &Statistics) -> String {
    let mut text = String::new();
    for thread in &statistics.threads {
        let ThreadStatistics {
            id,
            name,
            ended,
            recorded,
            readable,
            overwritten,
            dropped,
            summarised,
            ..
        } = thread;
        let _ = writeln!(
            text,
            "thread {id} {name} {ended} {recorded} {readable} {overwritten} {dropped} {summarised}"
        );
    }
    let _ = writeln!(
        text,
        "totals {} {} {} {} {}",
        statistics.functions,
        statistics.functions_on,
        statistics.missing.threads,
        statistics.missing.overwritten,
        statistics.missing.dropped
    );
    text
}

/// The number behind a word, on a line of its own.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn number_behind(text: &str, word: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(word));
    line.and_then(|number| number.trim().parse().ok())
        .expect("a number")
}

/// The other direction. Thread names must not hold spaces.
///
/// # Panics
///
/// If there are no statistics in the text.
#[must_use]
pub fn statistics(text: &str) -> Statistics {
    let mut statistics = Statistics::default();
    for words in all(text, "thread") {
        let mut thread = ThreadStatistics::default();
        thread.id = number(&words[0]);
        thread.name.clone_from(&words[1]);
        thread.ended = number(&words[2]);
        thread.recorded = number(&words[3]);
        thread.readable = number(&words[4]);
        thread.overwritten = number(&words[5]);
        thread.dropped = number(&words[6]);
        thread.summarised = number(&words[7]);
        statistics.threads.push(thread);
    }
    let totals = only_line(text, "totals");
    statistics.functions = number(&totals[0]);
    statistics.functions_on = number(&totals[1]);
    statistics.missing.threads = number(&totals[2]);
    statistics.missing.overwritten = number(&totals[3]);
    statistics.missing.dropped = number(&totals[4]);
    statistics
}

/// Every record that was asked for, wherever it went.
#[must_use]
pub fn total(statistics: &Statistics) -> u64 {
    let placed: u64 = statistics
        .threads
        .iter()
        .map(|thread| thread.recorded)
        .sum();
    placed + statistics.missing.overwritten + statistics.missing.dropped
}

/// Records that a line about a stream says were streamed, and lost.
///
/// # Panics
///
/// If it is no such line.
#[must_use]
pub fn streamed(line: &str) -> [u64; 2] {
    let words: Vec<&str> = line.split(' ').collect();
    let [first, streamed, .., lost, last] = words.as_slice() else {
        panic!("{line:?}");
    };
    assert_eq!((*first, *last), ("streamed", "lost"), "{line:?}");
    [number(streamed), number(lost)]
}

/// The reports of a program's children: process and number of records. `programs::children` prints them.
///
/// # Panics
///
/// If a word is no number.
#[must_use]
pub fn children<P: FromStr>(text: &str) -> Vec<(P, u64)> {
    let lines = all(text, "child").into_iter();
    lines
        .map(|words| (number(&words[0]), number(&words[1])))
        .collect()
}

/// The words after `key` in each line that begins with it.
#[must_use]
pub fn all(text: &str, key: &str) -> Vec<Vec<String>> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    text.lines()
        .map(words)
        .filter(|words| words[0] == key)
        .map(|mut words| words.split_off(1))
        .collect()
}

/// The words of the only line with that key.
///
/// # Panics
///
/// If there is another number of them.
#[must_use]
pub fn only_line(text: &str, key: &str) -> Vec<String> {
    let mut lines = all(text, key);
    assert_eq!(lines.len(), 1, "lines of {key:?} in:\n{text}");
    lines.remove(0)
}

/// A word as a number or truth value.
///
/// # Panics
///
/// If it is none.
#[must_use]
pub fn number<T: FromStr>(word: &str) -> T {
    word.parse()
        .unwrap_or_else(|_| panic!("{word:?} is not a {}", std::any::type_name::<T>()))
}
