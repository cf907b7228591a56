//! Durations, counts, dates, names and lines as people see them.

use super::*;

#[test]
fn durations_have_units() {
    let cases = [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.000 µs"),
        (12_345, "12.35 µs"),
        (123_456, "123.5 µs"),
        (999_940, "999.9 µs"),
        (999_950, "1.000 ms"),
        (10_000_000, "10.00 ms"),
        (1_234_567_890, "1.235 s"),
        (90_000_000_000, "90.00 s"),
        (u64::MAX, "18446744073.7 s"),
    ];
    for (nanos, text) in cases {
        assert_eq!(duration(nanos), text);
    }
}

#[test]
fn counts_have_separators() {
    assert_eq!(count(0), "0");
    assert_eq!(count(999), "999");
    assert_eq!(count(1_000), "1,000");
    assert_eq!(count(1_234_567), "1,234,567");
    assert_eq!(things(1, "call"), "1 call");
    assert_eq!(things(2, "call"), "2 calls");
    assert_eq!(count_of(2, "threads with times"), "2 threads with times");
    assert_eq!(count_of(1, "threads with times"), "1 thread with times");
    assert_eq!(
        count_of(1, "functions that are untimed: x"),
        "1 function that is untimed: x"
    );
    assert_eq!(
        count_of(1, "events that begin in the same microsecond"),
        "1 event that begins in the same microsecond"
    );
    assert_eq!(
        count_of(1, "entries and exits after it"),
        "1 entry or exit after it"
    );
    assert_eq!(
        count_of(1, "typed events: left out"),
        "1 typed event: left out"
    );
    assert_eq!(
        count_of(1, "changes to CPUs: left out"),
        "1 change to CPUs: left out"
    );
    assert_eq!(size(1023), "1023 B");
    assert_eq!(size(3_355_443), "3.2 MiB");
}

#[test]
fn points_in_time_are_dates() {
    let cases = [
        (0, "1970-01-01T00:00:00.000000Z"),
        (951_782_400_000_000_000, "2000-02-29T00:00:00.000000Z"),
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456Z"),
        (1_735_689_599_999_999_999, "2024-12-31T23:59:59.999999Z"),
        (u64::MAX, "2554-07-21T23:34:33.709551Z"),
    ];
    for (nanos, text) in cases {
        assert_eq!(utc(nanos), text);
    }
}

#[test]
fn long_names_lose_their_middle() {
    assert_eq!(shorten("app::run", 8), "app::run");
    assert_eq!(shorten("app::parser::Größe", 11), "app:…:Größe");
    assert_eq!(shorten("app::run", 1), "…");
    for most in 1..40 {
        let short = shorten("my_app::module::Type::method", most);
        assert_eq!(short.chars().count(), most.min(28));
    }
}

#[test]
fn short_facts_stay_in_one_line() {
    let text = "my_app (process 7) · 5.021 s · 3 threads · 1,004 records";
    assert_eq!(
        wrap_facts(text, 38, 2),
        "my_app (process 7) · 5.021 s ·\n  3 threads · 1,004 records"
    );
    let long = "a fact of very many words · b";
    assert_eq!(
        wrap_facts(long, 12, 2),
        "a fact of\n  very many\n  words · b"
    );
}

#[test]
fn lines_break_between_words() {
    assert_eq!(wrap("one two three", 80, 2), "one two three");
    assert_eq!(wrap("one two three", 8, 2), "one two\n  three");
    // A number stays beside its unit.
    for (text, wrapped) in [
        ("of it 20 % in", "of it\n  20 %\n  in"),
        ("took 8.900 µs.", "took\n  8.900 µs."),
        ("about 3 spans", "about 3\n  spans"),
        ("a  b 7 ms", "a  b\n  7 ms"),
        ("ends in 12", "ends in\n  12"),
    ] {
        assert_eq!(wrap(text, 7, 2), wrapped);
    }
    assert_eq!(super::cut("* task 7 polled", 8), "* task …");
    assert_eq!(super::cut("* task 7", 8), "* task 7");
    assert_eq!(
        wrap("a_word_that_is_long b", 5, 2),
        "a_word_that_is_long\n  b"
    );
    for width in 14..60 {
        let text = wrap(
            "fdr: some words of it, and a few more of them to be wrapped",
            width,
            5,
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= width),
            "{text}"
        );
    }
}

#[test]
fn limits_are_explained() {
    assert_eq!(at_least_one("7").map(NonZeroUsize::get), Ok(7));
    assert!(at_least_one("0").unwrap_err().contains("1 or more"));
    assert!(at_least_one("x").unwrap_err().contains("whole number"));
    assert!(at_least_one("-1").unwrap_err().contains("whole number"));
}

#[test]
fn paths_are_quoted_for_a_shell() {
    assert_eq!(shell(Path::new("a/b.1.2.fdr")), "a/b.1.2.fdr");
    assert_eq!(shell(Path::new("a b")), "'a b'");
    assert_eq!(shell(Path::new("")), "''");
    assert_eq!(shell(Path::new("it's")), r"'it'\''s'");
}
