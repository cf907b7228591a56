//! One room per command: its options, its help, and what it does. The list of commands is in [`list`].

pub(crate) mod convert;
pub(crate) mod ctl;
pub(crate) mod diff;
pub(crate) mod dump;
pub(crate) mod flame;
pub(crate) mod fleet_program;
pub(crate) mod generate;
pub(crate) mod graph;
pub(crate) mod here;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod overview;
pub(crate) mod pack;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod rings;
mod running;
pub(crate) mod scrub;
pub(crate) mod slow;
pub(crate) mod state;
pub(crate) mod top;
pub(crate) mod unpack;
pub(crate) mod verify;
pub(crate) mod view;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::{input, ui};

/// How a command ended, if it returned no error. A later variant is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// As it should.
    Done,
    /// The trace is not as it should be.
    Violations,
    /// With this exit code: that of a command that was run, or 2 after an error that was reported.
    Code(u8),
}

/// A part, as `5%`.
pub(crate) fn share(text: &str) -> Result<f64, &'static str> {
    let number = text
        .strip_suffix('%')
        .and_then(|text| text.trim().parse::<f64>().ok());
    let share = number.filter(|number| number.is_finite() && *number >= 0.0);
    share
        .map(|share| share / 100.0)
        .ok_or("it must be a number with %, as 5%")
}

/// The traces that a command reads.
#[derive(Debug, clap::Args)]
pub(crate) struct Traces {
    /// Traces, or folders of traces; `-` is standard input, a number is a running process [default: the newest here]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
}

impl Traces {
    /// What the command line names.
    pub(crate) fn named(&self) -> &[PathBuf] {
        &self.traces
    }

    /// Runs a command for each of them: see [`each_trace`].
    pub(crate) fn each(
        &self,
        run: impl FnMut(&Path, &mut Series) -> anyhow::Result<Status>,
    ) -> anyhow::Result<Status> {
        self.each_or_one(None, run)
    }

    /// The same for commands with an option that is for one trace only.
    pub(crate) fn each_or_one(
        &self,
        alone: Option<&str>,
        run: impl FnMut(&Path, &mut Series) -> anyhow::Result<Status>,
    ) -> anyhow::Result<Status> {
        if !self.traces.is_empty() {
            return each_trace(&self.traces, alone, run);
        }
        let newest = input::newest_here().into_iter().next();
        let newest = newest.context("there is no trace in this folder: name one")?;
        ui::complain(&format!("the newest trace here: {}", ui::path(&newest)));
        each_trace(&[newest], alone, run)
    }
}

/// The option that sends one trace to standard output, where it was given.
pub(crate) fn to_stdout(output: Option<&Path>) -> Option<&'static str> {
    output
        .filter(|output| output.as_os_str() == "-")
        .map(|_| "-o -")
}

/// Runs a command for each named trace, one after the other, as [`each`] does. A folder stands for all traces in it.
/// `run` also gets the place of the trace among all. `alone`: an option of the command line that is
/// for one trace only, if it was given.
pub(crate) fn each_trace(
    named: &[PathBuf],
    alone: Option<&str>,
    mut run: impl FnMut(&Path, &mut Series) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    let mut traces = Vec::new();
    let mut unread = false;
    for path in named {
        match input::traces(path) {
            Ok(mut found) => traces.append(&mut found),
            Err(error) if named.len() == 1 => return Err(error),
            Err(error) => {
                ui::complain(&format!("{error:#}"));
                unread = true;
            }
        }
    }
    let several = traces.len() > 1 || named.len() > 1;
    if let (true, Some(option)) = (several, alone) {
        bail!("{option} takes one trace at a time");
    }
    let mut series = Series {
        several,
        is_first: true,
    };
    let status = each(&traces, |trace| run(trace, &mut series))?;
    Ok(match unread {
        true => Status::Code(2),
        false => status,
    })
}

/// Runs a command for one trace after the other. If one of several traces can't be read, the command continues with the
/// next one. The status is the worst one of all.
pub(crate) fn each(
    traces: &[PathBuf],
    mut run: impl FnMut(&Path) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    if let [trace] = traces {
        return run(trace);
    }
    let (mut violations, mut unread) = (false, false);
    for trace in traces {
        match run(trace) {
            Ok(status) => violations |= status == Status::Violations,
            Err(error) if ui::is_reader_gone() => return Err(error),
            Err(error) => {
                ui::complain(&format!("{error:#}"));
                unread = true;
            }
        }
    }
    Ok(match (unread, violations) {
        (true, _) => Status::Code(2),
        (false, true) => Status::Violations,
        (false, false) => Status::Done,
    })
}

/// The answers of a command, one for each trace.
pub(crate) struct Series {
    several: bool,
    is_first: bool,
}

impl Series {
    /// Whether there are several traces.
    pub(crate) fn has_several(&self) -> bool {
        self.several
    }

    /// Whether the next answer is the first one. The one after it is not.
    pub(crate) fn takes_first(&mut self) -> bool {
        std::mem::take(&mut self.is_first)
    }

    /// The heading of the next answer, which tells the answers apart. It is empty if there is only one answer.
    pub(crate) fn heading(&mut self, trace: &Path) -> String {
        match (self.several, self.takes_first()) {
            (false, _) => String::new(),
            (true, true) => format!("{}\n", ui::path(trace)),
            (true, false) => format!("\n{}\n", ui::path(trace)),
        }
    }
}
