//! `fdr view`: threads on one axis of time, in a browser.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `pyramid` | the calls of a thread at several resolutions, in bounded memory |
//! | `index`, `filler` | one pass over the trace fills them, and notes places from which calls can be followed again |
//! | `stretch` | a stretch of time as a source, followed from such a place |
//! | `picture` | what of a thread is seen at a number of pixels |
//! | `thread_tasks`, `tasks` | what threads say of tasks; tasks with their polls, packed into lanes |
//! | `counters`, `curves`, `cpus` | the values of counters, and their curves; on which CPU a thread was |
//! | `live` | what is shown, and new snapshots of a process that runs |
//! | `viewed` | a trace with its index, and what is asked of both |
//! | `details`, `task_details`, `survey`, `paths` | one call; one task; all calls of functions; the flame graph |
//! | `events`, `waits` | the events of a moment; for which locks a thread waited |
//! | `ending` | what ended the recording, for the banner |
//! | `call_key` | what tells one call from all others |
//! | `api`, `server`, `http` | the answers, whom they are given to, and their form |
//! | `connections`, `browser` | those who have not shown the token yet; how the browser gets it |
//! | `wire` | pictures as arrays of numbers |
//! | `page`, `export` | the text of the page; a page with its data inside, as a file |
//! | `file_data` | what such a file may say |

mod api;
mod browser;
mod call_key;
mod connections;
mod counters;
mod cpus;
mod curves;
mod details;
mod ending;
mod events;
mod export;
mod file_data;
mod filler;
mod http;
mod index;
mod live;
mod page;
mod paths;
mod picture;
mod pyramid;
mod server;
mod stretch;
mod survey;
mod task_details;
mod tasks;
mod thread_tasks;
mod viewed;
mod waits;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;

use self::api::Api;
use self::live::LiveTraces;
use self::server::Server;
use self::viewed::ViewedTrace;
use super::{Status, Traces};
use crate::{memory, ui};

const HELP: &str = "\
The command serves a page on 127.0.0.1, to this machine alone, and opens it in
the browser. Its address has a token that only you know. The browser gets it by
a file in a private folder, which is removed when the page is open. The command
ends with Ctrl-C, or a minute after the page was closed.

With -o, the page is a file that opens without network and without fdr. It has
20 MB at most: the shortest calls are joined until it is small enough, and the
page says so. It has no arguments, results, errors and values of events, and
explains no calls but the slow ones.

The trace is read once, and the picture grows while it is. Of a large trace,
short calls are read again when you zoom in, so its size does not matter. Use
--max-memory to keep more of them at hand.

Instead of a trace, give the number of a process that runs: the page shows a
snapshot of it, and R in the page takes a new one. The process is not stopped.

Keys: W and S zoom, A and D move, f shows everything, ? lists all keys.

Examples:
  fdr view app.fdr
  fdr view 1234                     a running process
  fdr view --no-open app.fdr        prints the address only
  fdr view --port 8000 app.fdr      always at the same port
  fdr view -o page.html app.fdr     one file to send, which needs no server";

/// Show all threads on one axis of time, in a browser
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    /// Print the address, and open no browser
    #[arg(long)]
    no_open: bool,
    /// Listen on this port of 127.0.0.1 [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,
    /// Write the page with its data into this new file instead
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["no_open", "port"])]
    output: Option<PathBuf>,
    /// Replace that file
    #[arg(long, requires = "output")]
    force: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    if let Some(process) = live::process(&options.traces.traces) {
        if options.output.is_some() {
            bail!("-o takes traces: make one with fdr dump {process}");
        }
        return serve(options, LiveTraces::of_process(process)?);
    }
    let mut paths = Vec::new();
    options.traces.each(|trace, _| {
        paths.push(trace.to_owned());
        Ok(Status::Done)
    })?;
    // Half of what the command may hold is for the index; figures need memory, too.
    let bytes = memory::limit() / 2 / paths.len().max(1) as u64;
    let open = |path: &PathBuf| ViewedTrace::open(path, bytes).map(Arc::new);
    let traces: Vec<Arc<ViewedTrace>> = paths.iter().map(open).collect::<anyhow::Result<_>>()?;
    if let Some(output) = &options.output {
        export::write(&traces, output, options.force)?;
        return Ok(Status::Done);
    }
    serve(options, LiveTraces::of_traces(traces))
}

fn serve(options: &Options, live_traces: LiveTraces) -> anyhow::Result<Status> {
    let server = Server::new(options.port)?;
    let address = server.address();
    let (traces, _) = live_traces.traces();
    let titles: Vec<String> = traces
        .iter()
        .map(|viewed| api::title(&viewed.path))
        .collect();
    ui::print(|out| {
        writeln!(out, "{}: {address}", titles.join(", "))?;
        Ok(writeln!(
            out,
            "Ctrl-C ends it; so does a minute without the page"
        )?)
    })?;
    let lead = match options.no_open {
        true => None,
        false => browser::open(&address),
    };
    drop(traces);
    server.run(Arc::new(Api { live_traces }), lead)?;
    Ok(Status::Done)
}
