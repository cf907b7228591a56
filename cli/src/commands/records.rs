//! `fdr records`: one line for every record of the file, in the order of the file.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;

use fdr_formats::source::Record;
use fdr_formats::{Clock, Ticks};

use super::Status;
use crate::selection::{Filtering, Selection};
use crate::{trace, ui};

const HELP: &str = "\
Columns: byte offset, size, thread, time since the first record that has one, kind, fields.

Examples:
  fdr records app.fdr | less
  fdr records --thread worker-1 --limit 100 app.fdr
  fdr records --from 0x1f40 --limit 20 app.fdr      what is at the offset of a diagnostic";

/// One line for every record of the file
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// At most so many records
    #[arg(long, value_name = "N", value_parser = ui::at_least_one)]
    limit: Option<NonZeroUsize>,
    /// Only records that begin at this byte or later: 8000 or 0x1f40
    #[arg(long, value_name = "OFFSET", value_parser = offset, default_value = "0", hide_default_value = true)]
    from: u64,
}

fn offset(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|error| format!("{error}; an offset is 8000 or 0x1f40"))
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let source = options.selection.open(&options.trace, Filtering::Calls)?;
    let mut left = options.limit.map_or(usize::MAX, NonZeroUsize::get);
    let mut origin = None;
    ui::print(|out| {
        let mut failure = None;
        let visited = source.records(&mut |record| {
            if let Some(time) = record.time {
                origin.get_or_insert(time);
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            if record.offset < options.from {
                return ControlFlow::Continue(());
            }
            left -= 1;
            let line = line(record, &source.info().clock, origin);
            match writeln!(out, "{line}") {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        visited.map_err(|error| trace::about(&options.trace, error))?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    })?;
    for diagnostic in source.diagnostics() {
        ui::complain(&format!("{}: {diagnostic}", ui::path(&options.trace)));
    }
    Ok(Status::Done)
}

fn line(record: &Record<'_>, clock: &Clock, origin: Option<Ticks>) -> String {
    let thread = record
        .thread
        .map_or("-".into(), |thread| thread.to_string());
    let time = match (record.time, origin) {
        (Some(time), Some(origin)) if time >= origin => {
            format!("+{} ns", clock.nanos(time.since(origin)).0)
        }
        (Some(time), Some(origin)) => format!("-{} ns", clock.nanos(origin.since(time)).0),
        _ => "-".into(),
    };
    format!(
        "{:#010x} {:>4} B {thread:>8} {time:>16}  {:<13} {}",
        record.offset,
        record.size,
        ui::clean(record.kind),
        ui::clean(record.detail)
    )
    .trim_end()
    .to_owned()
}

#[cfg(test)]
mod tests {
    use fdr_formats::ThreadId;

    use super::*;

    #[test]
    fn offsets() {
        assert_eq!(offset("8000"), Ok(8000));
        assert_eq!(offset("0x1f40"), Ok(8000));
        assert_eq!(offset("0X1F40"), Ok(8000));
        assert!(offset("f").is_err());
        assert!(offset("0x").is_err());
    }

    #[test]
    fn a_line_is_one_line() {
        let record = Record {
            offset: 32,
            size: 16,
            thread: Some(ThreadId(7)),
            time: Some(Ticks(1500)),
            function: None,
            kind: "CustomEvent",
            detail: "\"a\nb\x1b[0m\"",
        };
        assert_eq!(
            line(&record, &Clock::default(), Some(Ticks(1000))),
            "0x00000020   16 B        7          +500 ns  CustomEvent   \"a\\nb\\u{1b}[0m\""
        );
    }
}
