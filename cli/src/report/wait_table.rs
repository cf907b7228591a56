//! The waits of a report for people: a table of locks, conditions and channels, and a line of the threads that still
//! wait.

use std::io::Write;

use fdr_formats::TraceInfo;

use super::table_style::{TableStyle, when};
use super::waits::{OpenWait, WaitRow, WaitRows};
use crate::columns::Columns;
use crate::{trace, ui};

/// The most functions of holders in a row, and the most threads that are named as waiting.
const MAX_NAMES: usize = 3;

/// Writes the table below an empty line and its heading; nothing where no thread waited.
pub(super) fn write(
    out: &mut dyn Write,
    waits: &WaitRows,
    look: TableStyle,
    heading: Option<String>,
) -> anyhow::Result<()> {
    if waits.rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    if let Some(heading) = heading {
        writeln!(out, "{heading}")?;
    }
    let head = [
        "waits",
        "total",
        "longest",
        "threads",
        "waited for",
        "holder was in",
    ];
    let columns = Columns {
        spare: &["threads", "longest"],
        ..look.columns(&head, 4)
    };
    let time = |ns: u64| match look.timeless {
        true => "-".to_owned(),
        false => ui::duration(ns),
    };
    columns.write_with_note(out, || {
        waits.rows.iter().map(|row| {
            vec![
                ui::count(row.waits),
                time(row.total_ns),
                time(row.longest_ns),
                ui::count(row.threads as u64),
                format!("{} ({})", ui::clean(&row.name), ui::clean(&row.reason)),
                holders(row),
            ]
        })
    })?;
    if waits.hidden > 0 {
        let hidden = ui::things(waits.hidden as u64, "lock");
        writeln!(out, "{hidden} not shown (--limit)")?;
    }
    Ok(())
}

/// `1.200 s in 40 waits for queue (lock), holder in app::flush 80 %, not known 20 %`.
pub(crate) fn in_short(row: &WaitRow) -> String {
    let mut words = format!(
        "{} in {} for {} ({})",
        ui::duration(row.total_ns),
        ui::things(row.waits, "wait"),
        ui::clean(&row.name),
        ui::clean(&row.reason)
    );
    if !row.holders.is_empty() {
        words += &format!(", holder in {}", holders(row));
    }
    words
}

/// `app::flush 80 %, app::load 15 %, not known 5 %`.
fn holders(row: &WaitRow) -> String {
    let shown = row.holders.iter().take(MAX_NAMES);
    let shown = shown.map(|holder| {
        let function = holder.function.as_deref().unwrap_or("not known");
        format!("{} {:.0} %", ui::clean(function), holder.share * 100.0)
    });
    let mut shown: Vec<String> = shown.collect();
    if row.holders.len() > MAX_NAMES {
        shown.push(format!("{} more", row.holders.len() - MAX_NAMES));
    }
    match shown.is_empty() {
        true => "-".to_owned(),
        false => shown.join(", "),
    }
}

/// `the lock queue, held by worker in app::flush`.
pub(crate) fn waited_for(wait: &OpenWait) -> String {
    let mut text = format!("{} ({})", ui::clean(&wait.name), ui::clean(&wait.reason));
    if let Some(holder) = wait.holder {
        let name = wait.holder_name.as_deref().unwrap_or_default();
        let name = match wait.holder == Some(wait.thread) {
            true => "itself".to_owned(),
            false => thread(holder, name),
        };
        text.push_str(&format!(", held by {name}"));
        if let Some(function) = &wait.holder_function {
            text.push_str(&format!(" in {}", ui::clean(function)));
        }
    }
    text
}

fn thread(id: u64, name: &str) -> String {
    match ui::clean(name) {
        name if name.is_empty() => format!("thread {id}"),
        name => format!("{name} ({id})"),
    }
}

/// Which threads waited when the trace was written, in a line; `None`: there are none.
pub(crate) fn open_in_words(
    info: &TraceInfo,
    open: &[OpenWait],
    ends_early: bool,
) -> Option<String> {
    if open.is_empty() || trace::is_timeless(info) {
        return None;
    }
    let row = |wait: &OpenWait| {
        let who = thread(wait.thread, &wait.thread_name);
        let time = ui::duration(wait.waiting_ns);
        format!("{who} for {time} for {}", waited_for(wait))
    };
    let when = when(info, ends_early);
    Some(format!("waiting {when}: {}", ui::first_of(open, row)))
}
