//! What a reader of a report's figures must know, below its table.

use fdr_formats::model::Missing;

use super::function_rows::Row;
use super::rows::Report;
use super::states::{InStates, percent};
use super::whole::WITHOUT_ROOM;
use crate::{trace, ui};

/// What a reader of the figures must know.
pub(crate) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    whole_run(report, &mut notes);
    notes.extend(tasks(report));
    notes.extend(states_in_words(report));
    estimated(report, &mut notes);
    window(report, &mut notes);
    left_out(report, &mut notes);
    notes.extend(records(report));
    losses(report, &mut notes);
    notes.extend(report.moments.in_words("mark: "));
    notes.extend(report.clock_notes.iter().cloned());
    if let Some(missing) = trace::missing(&report.missing) {
        notes.push(format!("of these, not of the trace's threads: {missing}"));
    }
    damage(report, &mut notes);
    notes
}

/// The remark about what the figures of the whole run count.
fn whole_run(report: &Report, notes: &mut Vec<String>) {
    if !report.is_whole {
        return;
    }
    let has_estimates = report.rows.iter().any(|row| row.calls_error.is_some());
    let counted = match report.dropped() {
        0 if has_estimates => {
            "calls that have ended are counted, or estimated (~), also those whose records are gone"
        }
        0 => "each call that has ended is counted, also those whose records are gone",
        _ => {
            "calls that have ended are counted, also those whose records were overwritten; calls whose records were \
              dropped may be missing"
        }
    };
    notes.push(format!(
        "whole run: {counted}; p50, p90 and p99 are within 7 %"
    ));
    notes.extend(shared_rows(report));
    let open = report.open.iter().map(|row| row.depth).sum::<u64>();
    if open > 0 {
        let (have, are) = if open == 1 {
            ("has", "is")
        } else {
            ("have", "are")
        };
        notes.push(format!(
            "open: {} {have} not ended, and {are} in no row (--window has the time so far)",
            ui::things(open, "call"),
        ));
    }
}

fn tasks(report: &Report) -> Option<String> {
    match report.tasks {
        (Some(tasks), _) if report.is_whole && tasks > 0 => {
            Some(format!("tasks: {} (--tasks)", ui::count(tasks)))
        }
        (_, noted) if noted > 0 => {
            let noted = ui::things(noted, "note");
            Some(format!("tasks: {noted} of them (--tasks)"))
        }
        _ => None,
    }
}

/// Functions whose calls have no times, or left nothing, because of the budget.
fn estimated(report: &Report, notes: &mut Vec<String>) {
    let counted = report.rows.iter().filter(|row| row.counted > 0);
    let (looked_at, counted): (Vec<&Row>, Vec<&Row>) =
        counted.partition(|row| row.calls_error.is_some());
    let things = |rows: &[&Row]| ui::things(rows.len() as u64, "function");
    let mut what = Vec::new();
    if !counted.is_empty() {
        what.push(format!("calls of {} were only counted", things(&counted)));
    }
    if !looked_at.is_empty() {
        let most = looked_at.iter().map(|row| part(row.calls_error, row.calls));
        let most = most.fold(0.0, f64::max);
        let error = match most < 0.5 {
            true => String::new(),
            false => format!(" (standard error of calls up to {most:.0} %)"),
        };
        what.push(format!(
            "calls of {} were only looked at, in slices of time drawn by lot{error}",
            things(&looked_at)
        ));
    }
    if !what.is_empty() {
        notes.push(format!(
            "~: {} (FDR_BUDGET); times are estimated from the timed calls{}, and taken from the self times of the callers; \
             mean to max are of the timed calls",
            what.join(", "),
            standard_error(report),
        ));
    }
    if let Some(cost) = report.recording_cost {
        notes.push(format!(
            "recording took {} of the program's CPU time in the end (FDR_BUDGET={})",
            percent(cost.share as f64 / 1e6),
            percent(cost.budget as f64 / 1e6),
        ));
    }
}

/// An error in percent.
fn part(error: Option<u64>, of: u64) -> f64 {
    error.unwrap_or(0) as f64 * 100.0 / of.max(1) as f64
}

/// Notes which window the figures cover, and whether there are times.
fn window(report: &Report, notes: &mut Vec<String>) {
    if let Some(note) = report.window_note.as_ref().filter(|_| !report.is_whole) {
        let common = match note.starts_with("windows") {
            true => " (--common takes only that)",
            false => "",
        };
        notes.push(format!("{note}{common}"));
    }
    if report.timeless {
        let what = "the trace has the order of its calls, and no times";
        notes.push(what.to_owned());
    }
}

/// Functions that are not shown, and calls that are not in all figures.
fn left_out(report: &Report, notes: &mut Vec<String>) {
    if report.hidden > 0 {
        notes.push(format!(
            "{} not shown (--limit)",
            ui::things(report.hidden as u64, "function")
        ));
    }
    if report.untimed > 0 {
        let passed = match report.untimed_ns {
            0 => "what passed in them is self time of the functions that called them".to_owned(),
            ns => format!("what passed in them, {}, is in no row", ui::duration(ns)),
        };
        let functions = ui::things(report.untimed as u64, "function");
        notes.push(format!(
            "untimed: the calls of {functions} are counted, without times; {passed}"
        ));
    }
    if report.clipped > 0 && !report.is_whole {
        notes.push(format!(
            "clipped: {} seen in part (open where the trace begins or ends, or without an exit): in \
             calls, total and self, not in min to max",
            ui::things(report.clipped, "call"),
        ));
    }
    let (calls, short_ns) = report.short();
    if calls > 0 && !report.is_whole {
        notes.push(format!(
            "short: {} left no records (FDR_KEEP), and are in no row; their {} are not self time of the functions that \
             made them",
            ui::things(calls, "call"),
            ui::duration(short_ns),
        ));
    }
}

/// How many records there were, and how many of them are gone.
pub(crate) fn records(report: &Report) -> Option<String> {
    let counts = report.counts()?;
    let damaged = !report.diagnostics.is_empty();
    let doubtful = trace::doubtful_counts(&counts, report.counted_records(), damaged);
    Some(doubtful.unwrap_or_else(|| {
        let Missing {
            overwritten,
            dropped,
            ..
        } = report.missing;
        let gone = overwritten.saturating_add(dropped);
        format!(
            "of {}: {} overwritten by newer ones, {} dropped{}",
            ui::things(counts.recorded.saturating_add(gone), "record"),
            ui::count(counts.overwritten.saturating_add(overwritten)),
            ui::count(counts.dropped.saturating_add(dropped)),
            trace::summarised(&counts),
        )
    }))
}

/// Records that are missing between others, and jumps of the clock.
fn losses(report: &Report, notes: &mut Vec<String>) {
    if report.lost() > 0 {
        notes.push(format!(
            "{} lost in the middle: calls that were open there are clipped",
            ui::things(report.lost(), "record")
        ));
    }
    if report.breaks() > 0 {
        notes.push(crate::clock::breaks_in_words(report.breaks()));
    }
}

/// Edges without a partner, and damaged places.
fn damage(report: &Report, notes: &mut Vec<String>) {
    let flaws = &report.flaws;
    for (number, what) in [
        (flaws.missing_entries, "exit without an entry"),
        (flaws.missing_exits + flaws.open, "entry without an exit"),
    ] {
        if number > 0 {
            notes.push(format!(
                "unbalanced: {} × {what} (see fdr verify)",
                ui::count(number)
            ));
        }
    }
    for diagnostic in &report.diagnostics {
        notes.push(format!("damaged: {}", ui::clean(&diagnostic.to_string())));
    }
    if report.more_diagnostics > 0 {
        notes.push(format!(
            "damaged: {} more places",
            ui::count(report.more_diagnostics)
        ));
    }
}

/// Of what the figures are: of the whole run, or of the records, which may be a part of the run. All tables of a report
/// are of that, unless their heading says otherwise.
pub(crate) fn scope_in_words(report: &Report) -> String {
    let without = match report.dropped() {
        0 => String::new(),
        records => format!(
            ", without calls of {}",
            ui::things(records, "dropped record")
        ),
    };
    match (report.is_whole, report.has_all) {
        (true, _) => {
            format!("figures of the whole run{without} (--window: figures of the records)")
        }
        (false, true) => {
            "figures of the whole run: the records of all its calls are in the trace".to_owned()
        }
        (false, false) => "figures of the records".to_owned(),
    }
}

/// The heading of a table that is of the records, below figures of the whole run. `None`: it is of the same as the
/// figures.
pub(crate) fn heading_of_records(report: &Report, what: &str) -> Option<String> {
    let time = match report.timeless {
        true => String::new(),
        false => format!(" of {}", ui::duration(report.duration_ns)),
    };
    report
        .is_whole
        .then(|| format!("{what} in the records{time}:"))
}

/// The remarks about three kinds of rows: those that stand for several functions, those whose figures come from the
/// records, and those that count some times twice.
fn shared_rows(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.rows.iter().any(|row| row.nests && row.id != 0) {
        notes.push(
            "≤: the function calls itself, and its total also counts the inner calls (--window: outermost calls of the \
             records)"
                .to_owned(),
        );
    }
    if report
        .rows
        .iter()
        .any(|row| row.id == 0 && row.name == WITHOUT_ROOM)
    {
        notes.push(format!(
            "{WITHOUT_ROOM}: one row of all functions for which a thread had no row of their own; a thread has as many rows \
             as FDR_BUFFER allows"
        ));
    }
    let of_records = report.rows.iter().filter(|row| row.of_records).count();
    if of_records > 0 {
        notes.push(format!(
            "(records): {} had no row, and their figures are those of the records alone",
            ui::things(of_records as u64, "function")
        ));
    }
    notes
}

/// How far the estimates may be off. Empty if they are as good as exact.
fn standard_error(report: &Report) -> String {
    let percents = report
        .rows
        .iter()
        .map(|row| part(row.error_ns, row.self_ns));
    match percents.fold(0.0, f64::max) {
        most if most < 0.5 => String::new(),
        most => format!(" (standard error up to {most:.0} % of a self time)"),
    }
}

/// The remarks about the states of all threads.
fn states_in_words(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let all = |sum: InStates, more: &InStates| {
        let mut sum = sum;
        sum.add(more);
        sum
    };
    let spent = report
        .threads
        .iter()
        .filter_map(|thread| thread.states.spent);
    let spent = spent.fold(InStates::default(), |sum, more| all(sum, &more));
    let (while_recorded, of_records) = match report.is_whole {
        true => (
            ", the time of the records",
            ", of the calls whose records are in the trace",
        ),
        false => ("", ""),
    };
    if spent.known_ns() > 0 {
        let words = in_words(&spent, while_recorded);
        notes.push(format!("states: all threads together {words}"));
    }
    if report.has_states() {
        let own = report.rows.iter().filter_map(|row| row.states);
        let own = own.fold(InStates::default(), |sum, more| all(sum, &more.own));
        let partly = match (own.known_ns(), own.unknown_ns) {
            (0, _) => ". They are not known of any time".to_owned(),
            (_, 0) => String::new(),
            (known, unknown) => format!(
                ". They are known of {} of the self times",
                percent(known as f64 / known.saturating_add(unknown) as f64)
            ),
        };
        notes.push(format!(
            "running, preempted, waiting: shares of total or self times{of_records}{partly}"
        ));
    } else if report
        .threads
        .iter()
        .any(|thread| thread.states.coarse.is_some())
    {
        let coarse = report
            .threads
            .iter()
            .filter_map(|thread| thread.states.coarse);
        let (running, delay) = coarse.fold((0_u64, 0_u64), |(running, delay), more| {
            let running = running.saturating_add(more.running_ns);
            (running, delay.saturating_add(more.run_delay_ns))
        });
        notes.push(format!(
            "states, coarse: all threads together ran for {} and waited for a CPU for {} (--per-thread has each)",
            ui::duration(running),
            ui::duration(delay)
        ));
    }
    notes
}

/// `ran 12.0 %, were preempted 0.1 % and waited 87.9 % of 3.2 s`, and which time that is.
fn in_words(spent: &InStates, which: &str) -> String {
    let share = |ns| percent(spent.share(ns).unwrap_or(0.0));
    let unknown_part = match spent.unknown_ns {
        0 => String::new(),
        unknown => format!("; nothing is known of {}", ui::duration(unknown)),
    };
    format!(
        "ran {}, were preempted {} and waited {} of {}{which}{unknown_part}",
        share(spent.running_ns),
        share(spent.preempted_ns),
        share(spent.waiting_ns),
        ui::duration(spent.known_ns()),
    )
}
