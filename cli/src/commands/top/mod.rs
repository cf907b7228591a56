//! `fdr top`: what a running process does, looked at again and again. Two looks at its rings give exact counts of what
//! happened in between. Must never stop the process. Must never send it anything but the command of the key `d`.

mod figures;
mod reading;
mod screen;
mod states;
mod table;
#[cfg(test)]
mod tests;
mod view;

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::figures::{Picture, Sort, between};
use self::reading::{RingSample, Watched};
use self::screen::Screen;
use self::table::Column;
use self::view::{KeyAction, Page, View, filter_of};
use super::{Status, ctl, running};
use crate::columns::Columns;
use crate::report::json;
use crate::ring::find::process_number;
use crate::selection::moment::seconds;
use crate::ui;

/// The first figures are of a shorter time, so that there are some at once.
const FIRST: Duration = Duration::from_millis(300);
/// The longest wait for a key.
const MAX_WAIT: Duration = Duration::from_millis(200);

const HELP: &str = "\
fdr reads the sums that the recorder keeps of each thread and function. So the
calls in a second are exact, also of calls that leave no records. The process
is neither stopped nor signalled. The figures are of the time between two
looks:

  calls/s  calls that ended, in a second
  self/s   time in the functions themselves, in a second; all threads together
  total/s  with the calls inside
  p99      the length that 99 % of the calls did not exceed

Of a process that records states of threads also, of self/s of the calls
with records: running (on a CPU) and waiting, up to 50 ms ago.

Of threads: running, ready (waiting for a CPU), waiting, as the system counts
them, and the call that each is in.

Keys: Tab threads, Enter the functions of one, s sort, / filter, p pause,
d dump, ? all keys, q quit. Where standard output is no terminal, fdr prints
one table.

Examples:
  fdr top                        the only program that records
  fdr top 1234
  fdr top 1234 --filter 'my_app::db::*' --sort p99
  fdr top 1234 --once            one table, of one second
  fdr top 1234 --json --limit 60 > minute.json";

/// Watch a running process: calls and times of functions and threads
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The process [default: the only one that records]
    #[arg(value_name = "PID", value_parser = process_number)]
    process: Option<u32>,
    /// Look every TIME, as 2 (seconds) or 500ms
    #[arg(long, value_name = "TIME", value_parser = pause, default_value = "1")]
    every: Duration,
    /// Sort by self, running, waiting, total, calls, p99 or name
    #[arg(
        long,
        value_name = "KEY",
        value_enum,
        default_value = "self",
        hide_possible_values = true
    )]
    sort: Sort,
    /// Only functions of these globs; a word without * may stand anywhere in a name
    #[arg(short, long, value_name = "GLOBS", allow_hyphen_values = true, value_parser = named_filter)]
    filter: Option<(String, fdr_formats::filter::Filter)>,
    /// Threads instead of functions
    #[arg(long)]
    threads: bool,
    /// Print one table, of the time of --every
    #[arg(long)]
    once: bool,
    /// Print a JSON document each time
    #[arg(long)]
    json: bool,
    /// With --json: N documents
    #[arg(short = 'n', long, value_name = "N", requires = "json", value_parser = ui::at_least_one)]
    limit: Option<NonZeroUsize>,
}

fn pause(text: &str) -> Result<Duration, &'static str> {
    let pause = seconds(text)?;
    let is_long = pause >= Duration::from_millis(10);
    is_long.then_some(pause).ok_or("it must be 10ms or more")
}

fn named_filter(text: &str) -> Result<(String, fdr_formats::filter::Filter), String> {
    Ok((text.to_owned(), filter_of(text)?))
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let process = running::or_only(options.process, "fdr top")?;
    let mut watched = Watched::new(process);
    let first = watched.look()?;
    if !first.rings.iter().any(|ring| ring.reading.has_totals) {
        bail!(
            "process {process} keeps no sums of its calls, because it was started with FDR_KEEP=0 (the default of \
             formats other than xray): start it with FDR_KEEP=1ns; fdr dump {process} makes a trace of its records"
        );
    }
    let page = match options.threads {
        true => Page::Threads,
        false => Page::Functions,
    };
    let view = View::new(page, options.sort, options.filter.clone(), options.every);
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if options.json {
        documents(options, &mut watched, first, &view)?;
    } else if options.once || is_dumb || !io::stdout().is_terminal() {
        thread::sleep(options.every);
        let now = watched.look()?;
        let picture = between(process, &first, &now);
        ui::print(|out| write(out, &view, &picture))?;
    } else {
        live(&mut watched, first, view)?;
    }
    Ok(Status::Done)
}

/// Prints a document each time, until the process ends.
fn documents(
    options: &Options,
    watched: &mut Watched,
    first: RingSample,
    view: &View,
) -> anyhow::Result<()> {
    let mut before = first;
    let most = match (options.once, options.limit) {
        (true, _) => 1,
        (false, limit) => limit.map_or(usize::MAX, NonZeroUsize::get),
    };
    for _ in 0..most {
        thread::sleep(options.every);
        let now = watched.look()?;
        let mut picture = between(watched.process, &before, &now);
        let rows = view.rows(&picture).into_iter().cloned().collect();
        let threads = view.threads(&picture).into_iter().cloned().collect();
        (picture.functions, picture.threads) = (rows, threads);
        ui::print(|out| json::print(out, &picture))?;
        if now.over.is_some() || ui::is_reader_gone() {
            break;
        }
        before = now;
    }
    Ok(())
}

/// Prints a table.
fn write(out: &mut dyn Write, view: &View, picture: &Picture) -> anyhow::Result<()> {
    writeln!(out, "{}", view.facts(picture))?;
    if let Some(over) = &picture.over {
        writeln!(out, "{}", ui::clean(over))?;
    }
    match view.page {
        Page::Threads => write_table(out, table::THREADS, &view.threads(picture)),
        _ => write_table(out, table::of_functions(picture), &view.rows(picture)),
    }
}

fn write_table<T>(out: &mut dyn Write, columns: &[Column<T>], rows: &[&T]) -> anyhow::Result<()> {
    let width = ui::columns();
    let shown = |column: &&Column<T>| width.is_none_or(|width| width >= usize::from(column.from));
    let shown: Vec<_> = columns.iter().filter(shown).collect();
    let head: Vec<&str> = shown.iter().map(|column| column.head).collect();
    let cells = |row: &&T| shown.iter().map(|column| (column.cell)(row)).collect();
    let numbers = shown.iter().take_while(|column| table::is_right(column));
    Columns::new(&head, numbers.count()).write(out, || rows.iter().map(cells))?;
    Ok(())
}

/// A trace that the process is asked for.
type Dumping = Receiver<anyhow::Result<String>>;

/// Shows the figures until the user quits.
fn live(watched: &mut Watched, first: RingSample, mut view: View) -> anyhow::Result<()> {
    let process = watched.process;
    let mut screen = Screen::open()?;
    let mut before = first;
    let mut picture: Option<Picture> = None;
    let mut due = before.at + FIRST.min(view.every);
    let mut dumping: Option<Dumping> = None;
    let mut is_new = true;
    loop {
        if std::mem::take(&mut is_new) {
            screen
                .terminal
                .draw(|frame| view.draw(frame, picture.as_ref()))?;
        }
        let left = due.saturating_duration_since(Instant::now());
        if event::poll(left.min(MAX_WAIT))? {
            is_new = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                let shown = picture.as_ref();
                match view.key(key, shown.unwrap_or(&Picture::default())) {
                    KeyAction::Nothing => {}
                    KeyAction::Quit => return Ok(()),
                    KeyAction::Suspend => screen.suspend()?,
                    KeyAction::Dump if dumping.is_some() => {}
                    KeyAction::Dump => {
                        view.is_dumping = true;
                        dumping = Some(dump(process)?);
                    }
                }
            }
            continue;
        }
        if let Some(answer) = dumping.as_ref().and_then(|answer| answer.try_recv().ok()) {
            view.message = Some(match answer {
                Ok(path) => format!("trace: {}", ui::clean(&path)),
                Err(error) => ui::clean(&format!("no trace: {error:#}")).into_owned(),
            });
            (dumping, view.is_dumping, is_new) = (None, false, true);
        }
        if view.is_paused || before.over.is_some() {
            // The process is not read until the user resumes.
            due = Instant::now() + MAX_WAIT;
        } else if Instant::now() >= due {
            let look = watched.look()?;
            picture = Some(between(process, &before, &look));
            before = look;
            is_new = true;
            // From look to look, and not from the end of a slow one.
            due = before.at + view.every;
        }
    }
}

/// Asks the process for a trace, on a thread of its own: a large trace takes its time.
fn dump(process: u32) -> io::Result<Dumping> {
    let (answer, dumping) = channel();
    let ask = move || {
        let _ = answer.send(ctl::dump(process));
    };
    thread::Builder::new().name("dump".into()).spawn(ask)?;
    Ok(dumping)
}
