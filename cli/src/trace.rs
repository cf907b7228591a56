//! Messages about a trace that are the same in every command: errors, damage, missing records, doubtful counts.

use std::borrow::Cow;
use std::path::Path;

use fdr_formats::model::{Counts, Missing};
use fdr_formats::{Diagnostic, Error, Source, TraceInfo};

use crate::damage::MAX_DIAGNOSTICS;
use crate::ui;

/// The program and its process: `app (process 7)`. `None`: the trace does not name its program.
pub(crate) fn program(info: &TraceInfo) -> Option<String> {
    let program = Some(ui::clean(&info.program)).filter(|program| !program.is_empty())?;
    Some(match info.process {
        Some(process) => format!("{program} (process {process})"),
        None => program.into_owned(),
    })
}

/// What made the recorder write, to stand behind "written". Empty: the trace does not say.
pub(crate) fn occasion(info: &TraceInfo) -> Cow<'_, str> {
    let reason = reason(info);
    let words = match &*reason {
        "exit" => "at exit",
        "SIGINT" => "at its end by SIGINT (Ctrl-C)",
        "SIGTERM" => "at its end by SIGTERM",
        "signal" => "by signal",
        "panic" => "on panic",
        "call" => "by call",
        "control" => "by fdr ctl",
        "killed" => "after the process had ended without a dump (kill -9, _exit)",
        "snapshot" => "by fdr, beside the process",
        other => {
            return match other.strip_prefix("call: ") {
                Some(why) => Cow::Owned(format!("by call ({why})")),
                None => reason,
            };
        }
    };
    Cow::Borrowed(words)
}

/// Why the trace was written, for people.
pub(crate) fn reason(info: &TraceInfo) -> Cow<'_, str> {
    let reason = info.trigger();
    let Some((trigger, call)) = reason.and_then(|reason| Some((reason.trigger, reason.call()?)))
    else {
        return Cow::Borrowed(&info.reason);
    };
    let task = call.task.map(|task| format!("task {task} of "));
    Cow::Owned(format!(
        "trigger {trigger}: {}{} {} {} in thread {} ({}), begun {}",
        task.unwrap_or_default(),
        call.function,
        call.end.verb(),
        ui::duration(call.took_ns),
        call.thread,
        call.thread_name,
        ui::utc(call.begin_unix_ns)
    ))
}

/// Why a trace was written, as far as the recorder's own words say it.
const REASONS: [&str; 10] = [
    "exit", "SIGINT", "SIGTERM", "signal", "panic", "crash", "call", "control", "killed",
    "snapshot",
];

/// Why the trace was written, in one word. It has no text of the program, such as a panic's message. Empty: no such
/// word is known.
pub(crate) fn word_of_reason(info: &TraceInfo) -> &'static str {
    let mut words = REASONS.into_iter();
    words
        .find(|word| info.reason.starts_with(word))
        .unwrap_or_default()
}

/// An error that names the file it is about.
pub(crate) fn about(file: &Path, error: Error) -> anyhow::Error {
    anyhow::Error::new(error).context(ui::path(file))
}

/// Whether threads are not interleaved: one has ended when another one begins. (One lane may hold more threads
/// than it says.)
pub(crate) fn has_lane_for_each_thread(source: &dyn Source) -> bool {
    source.lanes() > 1 && source.lanes() == source.info().threads.len()
}

/// Whether the trace has the order of its calls alone: each step counts as 1 ns, which is no time.
/// Readers say so at the end of the format's name.
pub(crate) fn is_timeless(info: &TraceInfo) -> bool {
    info.format.ends_with(", without times")
}

/// How many records the trace counts as missing, in words. `None`: no record is missing.
pub(crate) fn missing(missing: &Missing) -> Option<String> {
    let mut parts = Vec::new();
    if missing.dropped > 0 {
        let records = ui::things(missing.dropped, "dropped record");
        let what =
            "of threads that had no ring (if they are many, raise FDR_MEMORY or lower FDR_BUFFER)";
        parts.push(format!("{records} {what}"));
    }
    if missing.overwritten > 0 || missing.threads > 0 {
        let records = ui::things(missing.overwritten, "overwritten record");
        let threads = ui::things(missing.threads, "ended thread");
        parts.push(format!("{records} of {threads} whose rings were reused"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// What the recorder counted, where that is not the whole truth: the trace is damaged, or does not
/// hold what its counts say. `found`: records of the threads that have counts.
pub(crate) fn doubtful_counts(counts: &Counts, found: u64, damaged: bool) -> Option<String> {
    let head = match (counts.readable == found, damaged) {
        (true, false) => return None,
        (true, true) => "counts of what is left of the trace",
        (false, _) => "the counts in the trace disagree with what is readable",
    };
    Some(format!(
        "{head}: it states {} recorded, {} readable, {} overwritten, {} dropped; {} can be read",
        ui::count(counts.recorded),
        ui::count(counts.readable),
        ui::count(counts.overwritten),
        ui::count(counts.dropped),
        ui::things(found, "record"),
    ))
}

/// Warns that a trace is damaged, before its content is shown. `diagnostics` are in the order of the file.
pub(crate) fn warn_of_damage(file: &Path, diagnostics: &[Diagnostic], more: u64) {
    let Some(first) = diagnostics.first() else {
        return;
    };
    let count = diagnostics.len() as u64 + more;
    // Readers stop counting, too.
    let least = if count > MAX_DIAGNOSTICS as u64 {
        "at least "
    } else {
        ""
    };
    ui::complain(&format!(
        "{}: the trace is damaged in {least}{}, the first at byte {}: what follows is what can be \
         read (fdr verify lists them)",
        ui::path(file),
        ui::things(count, "place"),
        first.offset,
    ));
}

/// The records of short calls, behind the other counts. Empty if there are none.
pub(crate) fn summarised(counts: &Counts) -> String {
    match counts.summarised {
        0 => String::new(),
        records => format!(", {} summarised", ui::count(records)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_records_come_with_advice() {
        assert_eq!(missing(&Missing::default()), None);
        let all = Missing {
            threads: 12,
            overwritten: 5000,
            dropped: 16_000,
        };
        assert_eq!(
            missing(&all).unwrap(),
            "16,000 dropped records of threads that had no ring \
             (if they are many, raise FDR_MEMORY or lower FDR_BUFFER); \
             5,000 overwritten records of 12 ended threads whose rings were reused"
        );
        let one = Missing {
            threads: 1,
            overwritten: 1,
            ..Missing::default()
        };
        let text = "1 overwritten record of 1 ended thread whose rings were reused";
        assert_eq!(missing(&one).unwrap(), text);
    }

    #[test]
    fn counts_are_doubted_where_they_must_be() {
        let counts = Counts {
            recorded: 9,
            readable: 8,
            overwritten: 1,
            ..Counts::default()
        };
        assert_eq!(doubtful_counts(&counts, 8, false), None);
        let left = doubtful_counts(&counts, 8, true).unwrap();
        assert!(left.starts_with("counts of what is left"), "{left}");
        let text = doubtful_counts(&counts, 5, true).unwrap();
        assert_eq!(
            text,
            "the counts in the trace disagree with what is readable: it states 9 recorded, \
             8 readable, 1 overwritten, 0 dropped; 5 records can be read"
        );
    }
}
