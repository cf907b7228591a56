//! The table of two threads beside each other, with its controls. Every setting is a row, also where its
//! process failed.

use std::fmt::Write;

use super::table::{line, shown};
use super::{Row, What};
use crate::bench::figures::Spread;

const PAIRS: &str = "\
| clock | this thread; the other thread | ns/call | over the first |
| --- | --- | --- | --- |
";

const MIB: f64 = (1 << 20) as f64;

/// The bench program's word, the one that it is compared with, and what is done.
const KEPT: [(&str, &str, &str); 15] = [
    ("alone", "alone", "recorded; nothing"),
    ("near", "alone", "recorded; the same, next slot and region"),
    (
        "far",
        "alone",
        "recorded; the same, slot and region far away",
    ),
    ("untimed_alone", "untimed_alone", "untimed; nothing"),
    (
        "untimed_near",
        "untimed_alone",
        "untimed; the same, next slot and region",
    ),
    (
        "untimed_far",
        "untimed_alone",
        "untimed; the same, slot and region far away",
    ),
    (
        "bare_far",
        "bare_far",
        "control: load and store of a word; the same in another page",
    ),
    (
        "bare_next_line",
        "bare_far",
        "control; the same in the next line",
    ),
    (
        "bare_same_line",
        "bare_far",
        "control; the same in the same line",
    ),
    (
        "cursor_far",
        "cursor_far",
        "control: floor with its cursor in memory; the same in another page",
    ),
    (
        "cursor_next_line",
        "cursor_far",
        "control; the same in the next line",
    ),
    (
        "cursor_same_line",
        "cursor_far",
        "control; the same in the same line",
    ),
    (
        "counter_far",
        "counter_far",
        "control: floor with an atomic count; the same in another page",
    ),
    (
        "counter_next_line",
        "counter_far",
        "control; the same in the next line",
    ),
    (
        "counter_same_line",
        "counter_far",
        "control; the same in the same line",
    ),
];
const DROPPED: [(&str, &str, &str); 2] = [
    ("alone", "alone", "no room for their rings; nothing"),
    ("near", "alone", "no room for their rings; the same"),
];

/// All pairs, and how far apart they were.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!("\n{PAIRS}");
    for row in rows {
        let settings = match row.what {
            What::Threads(_) => continue,
            What::Kept => &KEPT[..],
            What::Dropped => &DROPPED[..],
        };
        for setting in settings {
            text += &line(pair(row, setting));
        }
    }
    text + &apart(rows)
}

fn pair(row: &Row, (key, base, what): &(&str, &str, &str)) -> [String; 4] {
    let ratio = if key == base {
        "1".to_owned()
    } else {
        shown(row.ratio(key, base), 3)
    };
    [
        row.clock.unwrap_or("off").to_owned(),
        (*what).to_owned(),
        shown(row.word(key), 1),
        ratio,
    ]
}

/// How far the neighbours were from each other, and whether both were at work.
fn apart(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.what == What::Kept) {
        let number = |key| row.word(key).map(|spread| (spread.min, spread.max));
        let words = (
            number("near_slots"),
            number("far_slots"),
            row.word("near_bytes"),
            row.word("far_bytes"),
            row.word("together"),
        );
        if let (Some(near), Some(far), Some(near_bytes), Some(far_bytes), Some(together)) = words {
            let mib = |spread: Spread| spread.median / MIB;
            let _ = write!(
                text,
                "\n{}: next are {}..{} slots and {:.0} MiB, far are {}..{} slots and {:.0} MiB; both threads \
                 were at work in {:.0} % of the stretches, and those count.\n",
                row.clock.unwrap_or("off"),
                near.0,
                near.1,
                mib(near_bytes),
                far.0,
                far.1,
                mib(far_bytes),
                together.median * 100.0
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::words;

    #[test]
    fn pairs_are_compared_with_their_own_alone() {
        let pair = "alone=40 near=41 far=40 counter_far=38 counter_same_line=190 \
                    together=0.97 near_slots=1 \
                    near_bytes=4194304 far_slots=38 far_bytes=159383552";
        let mut row = Row::new(What::Kept, Some("rdtscp"));
        row.samples = vec![words(pair); 3];
        let text = table(&[row]);
        assert!(
            text.contains("next slot and region | 41.0 (41.0..41.0) | 1.025 (1.025..1.025) |"),
            "{text}"
        );
        assert!(
            text.contains("same line | 190.0 (190.0..190.0) | 5.000 (5.000..5.000) |"),
            "{text}"
        );
        assert!(
            text.contains("next are 1..1 slots and 4 MiB, far are 38..38 slots and 152 MiB"),
            "{text}"
        );
        assert!(text.contains("at work in 97 %"), "{text}");
    }
}
