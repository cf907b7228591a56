//! Two threads beside each other, with their controls: every setting is a row of a table. Must never leave one out,
//! also where its process failed.

use super::Row;
use crate::table::{Table, shown};

const MIB: f64 = (1 << 20) as f64;

/// In each line: the bench program's word, the word that it is compared with, and what is done.
pub(super) const KEPT: &str = "\
alone | alone | recorded; nothing
near | alone | recorded; the same, next slot and region
far | alone | recorded; the same, slot and region far away
untimed_alone | untimed_alone | untimed; nothing
untimed_near | untimed_alone | untimed; the same, next slot and region
untimed_far | untimed_alone | untimed; the same, slot and region far away
bare_far | bare_far | control: load and store of a word; the same in another page
bare_next_line | bare_far | control; the same in the next line
bare_same_line | bare_far | control; the same in the same line
cursor_far | cursor_far | control: floor with its cursor in memory; the same in another page
cursor_next_line | cursor_far | control; the same in the next line
cursor_same_line | cursor_far | control; the same in the same line
counter_far | counter_far | control: floor with an atomic count; the same in another page
counter_next_line | counter_far | control; the same in the next line
counter_same_line | counter_far | control; the same in the same line";
pub(super) const DROPPED: &str = "\
alone | alone | no room for their rings; nothing
near | alone | no room for their rings; the same";

/// A row for each setting.
pub(super) fn add(table: &mut Table, row: &Row, settings: &str) {
    for setting in settings.lines() {
        let mut fields = setting.splitn(3, " | ");
        let mut field = || fields.next().unwrap_or_default();
        let (key, base, what) = (field(), field(), field());
        let ratio = match key == base {
            true => "1".to_owned(),
            false => shown(row.ratio(key, base), 3),
        };
        table.add([row.clock(), what.to_owned(), shown(row.word(key), 1), ratio]);
    }
}

/// How far the neighbours were from each other, and whether both were at work.
pub(super) fn apart(row: &Row) -> Option<String> {
    let slots = |key| {
        row.word(key)
            .map(|spread| format!("{}..{}", spread.min, spread.max))
    };
    let mib = |key| row.times(key, 1.0 / MIB).map(|spread| spread.median);
    Some(format!(
        "\n{}: next are {} slots and {:.0} MiB, far are {} slots and {:.0} MiB; both threads were at work in {:.0} % \
         of the stretches, and those count.\n",
        row.clock(),
        slots("near_slots")?,
        mib("near_bytes")?,
        slots("far_slots")?,
        mib("far_bytes")?,
        row.times("together", 100.0)?.median
    ))
}
