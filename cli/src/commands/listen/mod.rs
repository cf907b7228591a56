//! `fdr listen`: receives the traces that programs stream (`FDR_OUT`).
//!
//! All bytes of a trace are kept as they come, and are read only when the stream has ended. No received byte of a trace
//! may be lost. The command's message and its exit code say how a stream ended.

mod newcomers;
mod peer_source;
mod peers;
mod receive;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use fdr_formats::Source;
use fdr_formats::address::{Address, SHAPES, Side};

use self::peer_source::{PeerSource, RETRY_INTERVAL};
use self::peers::Peer;
use self::receive::{End, Received};
use super::Status;
use crate::output_file::{self, Pending, Shape};
use crate::outputs::names;
use crate::selection::moment::seconds;
use crate::signals::Stop;
use crate::tally::Tally;
use crate::ui::{self, Arrivals};
use crate::{input, trace};

/// If the tool connects to a program, it waits this long for the program to start.
const WAIT: Duration = Duration::from_secs(60);
/// Numbers of files that are tried.
const MAX_FILES: u64 = 1_000_000;

const HELP: &str = "\
ADDR is the text that the program has in FDR_OUT:
  tcp://host:port          the program connects, and fdr listens. Port 0 is any
                           free port, which fdr prints
  tcp-listen://host:port   the program listens. fdr connects, and waits until
                           the program is there (--wait)
  unix:/path               the program connects. fdr makes the socket, and
                           removes it at the end
  -                        the program's standard output, which fdr reads from
                           its standard input

fdr ends when the connection ends. With --keep it goes on: it accepts several
programs at once, or connects again. Each connection has a file of its own:
app.htdump, app.2.htdump, app.3.htdump and so on, in the order in which the
first bytes came. INT, TERM and HUP end fdr, which keeps what came. A second
signal ends it at once, and keeps what came, too. A file has its name when its
stream has ended. Before that, its bytes are in a hidden file beside it.

Anybody who reaches the address can connect. A connection whose first 64 bytes
are no trace is reported and closed, and nothing of it is kept. fdr goes on to
wait for the program. On a socket (unix:) only this user and root are heard.

Exit codes: 0: a whole trace came. 1: nothing came, or fdr kept what came but
it is damaged, cut off or no known trace. 2: nothing can be received or
written.

Examples:
  fdr listen tcp://127.0.0.1:7000 -o app.htdump
      and FDR=* FDR_OUT=tcp://127.0.0.1:7000 ./my_app beside it
  fdr listen unix:/tmp/app.socket --keep -o traces/app.htdump
  FDR=* FDR_MODE=stream FDR_OUT=- ./my_app | fdr listen - -o app.htdump";

/// Receive what a program streams
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// Where the program streams to: the text of its FDR_OUT
    #[arg(value_name = "ADDR", allow_hyphen_values = true, value_parser = OsStringValueParser::new().try_map(address))]
    address: Address,
    /// The file to write, or a folder, in which the file is called stream
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Go on after the first connection, and write one file for each
    #[arg(long)]
    keep: bool,
    /// Take at most this much of each connection, such as 1G
    #[arg(long, alias = "limit", value_name = "SIZE", value_parser = max_size)]
    max_size: Option<u64>,
    /// Give up after TIME, as 10 (seconds) or 500ms, without a program [default: 60 if fdr connects, else never]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    wait: Option<Duration>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print only what is wrong
    #[arg(short, long)]
    quiet: bool,
}

fn address(text: OsString) -> Result<Address, String> {
    let none = || Err(format!("no address; an address is {SHAPES}"));
    Address::parse(&text, Path::new(""), Side::Tool).unwrap_or_else(none)
}

fn max_size(text: &str) -> Result<u64, String> {
    match ui::size_of(text)? {
        0 => Err("it must be 1 byte or more; leave the option out for no limit".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    if options.output.as_os_str() == "-" {
        bail!("-o -: what comes must go to a file, to be looked into");
    }
    let output = names::output(
        Some(&options.output),
        false,
        Path::new(""),
        OsStr::new("stream"),
    )?;
    let stop = Stop::on_signals().context("signals")?;
    // If the output can't be written, the command fails before a program sends anything.
    drop(Pending::file(&output, options.force)?);
    let mut peer_source = PeerSource::open(&options.address)?;
    if !options.quiet || options.address.is_any_port() {
        ui::complain(&peer_source.in_words(&options.address));
    }
    let session = Session {
        options,
        output: &output,
        stop: &stop,
        progress: match options.quiet {
            true => Arrivals::hidden(),
            false => Arrivals::new(),
        },
        files: Mutex::new(1),
        worst: Mutex::new(None),
    };
    session.run(&mut peer_source)?;
    drop(peer_source);
    let worst = session.worst.into_inner().unwrap_or_default();
    Ok(worst.unwrap_or_else(|| {
        ui::complain("no trace: nothing came");
        Status::Violations
    }))
}

/// What all connections share.
struct Session<'a> {
    options: &'a Options,
    output: &'a Path,
    stop: &'a Stop,
    progress: Arrivals,
    /// Number of the next file.
    files: Mutex<u64>,
    /// How the connections so far ended.
    worst: Mutex<Option<Status>>,
}

impl Session<'_> {
    fn run(&self, peer_source: &mut PeerSource) -> anyhow::Result<()> {
        let Options { keep, wait, .. } = self.options;
        let wait = match peer_source {
            PeerSource::Connects { .. } => Some(wait.unwrap_or(WAIT)),
            _ => *wait,
        };
        std::thread::scope(|scope| {
            loop {
                let end = wait.and_then(|wait| Instant::now().checked_add(wait));
                let named = || self.options.address.to_string();
                let Some(peer) = peer_source
                    .next(self.stop, end, &self.progress)
                    .with_context(named)?
                else {
                    return Ok(());
                };
                if *keep && peer_source.is_shared() {
                    scope.spawn(|| self.serve(peer));
                    continue;
                }
                let came = self.serve(peer);
                if !keep {
                    return Ok(());
                }
                // Pauses before the next connection if nothing came, because this peer may close every connection at
                // once.
                if !came {
                    self.stop
                        .wait_for(None, Some(Instant::now() + RETRY_INTERVAL))?;
                }
            }
        })
    }

    /// Serves one connection to its end, and prints the lines about it. Returns whether any bytes came.
    fn serve(&self, mut peer: Peer) -> bool {
        let limit = self.options.max_size;
        let mut path = PathBuf::new();
        let make = || {
            let (pending, file, name) = self.file()?;
            path = name;
            Ok((pending, file))
        };
        let received = receive::receive(&mut peer, make, limit, self.stop, &self.progress);
        drop(peer.stream);
        let finished = received.and_then(|received| {
            let finish = || self.finish_file(&peer.name, &path, received);
            self.progress.aside(finish)
        });
        let status = finished.unwrap_or_else(|error| {
            let complain = || ui::complain(&format!("{error:#}"));
            self.progress.aside(complain);
            Some(Status::Code(2))
        });
        if let Ok(mut worst) = self.worst.lock() {
            *worst = (*worst).max(status);
        }
        status.is_some()
    }

    /// A file for a connection: the first one that is free.
    fn file(&self) -> anyhow::Result<(Pending, File, PathBuf)> {
        let (output, force) = (self.output, &self.options.force);
        let mut next = self
            .files
            .lock()
            .map_err(|_| anyhow::anyhow!("a thread failed"))?;
        for number in *next..MAX_FILES {
            let path = numbered(output, number);
            if number > 1 && output_file::check(&path, Shape::File, *force).is_err() {
                continue;
            }
            *next = number + 1;
            let (mut pending, file) = Pending::file(&path, *force)?;
            pending.keep_at_signal();
            return Ok((pending, file, path));
        }
        bail!("{}: a million files; give another name", ui::path(output))
    }

    /// Puts a file into its place, and says what is in it. `None`: nothing came.
    fn finish_file(
        &self,
        name: &str,
        path: &Path,
        received: Received,
    ) -> anyhow::Result<Option<Status>> {
        let Received {
            pending,
            bytes,
            time,
            end,
        } = received;
        let from = match name {
            "" => String::new(),
            name => format!(" from {name}"),
        };
        let Some(mut pending) = pending else {
            let end = end
                .in_words()
                .map_or(String::new(), |what| format!(": {what}"));
            ui::complain(&format!("nothing came{from}{end}"));
            return Ok(None);
        };
        if let Err(error) = pending.place() {
            let kept = pending.keep();
            bail!("{error:#}; what came is in {}", ui::path(&kept));
        }
        let file = ui::path(path);
        if !self.options.quiet {
            let time = ui::duration(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            ui::complain(&format!("{file}: {}{from} in {time}", ui::size(bytes)));
        }
        let mut status = Status::Done;
        if let Some(what) = end.in_words() {
            status = Status::Violations;
            ui::complain(&format!("{file}: {what}; what came is kept"));
        }
        if let End::WriteFailed(_) = end {
            status = Status::Code(2);
        }
        match input::open(path) {
            Ok(source) => status = status.max(self.look(path, &*source)?),
            Err(error) => {
                ui::complain(&format!("{error:#}"));
                if self.options.address == Address::Stdout {
                    let why = "what the program itself prints comes the same way: if it prints, use another address";
                    ui::complain(why);
                }
                status = status.max(Status::Violations);
            }
        }
        Ok(Some(status))
    }

    /// What is in a file that was received.
    fn look(&self, path: &Path, source: &dyn Source) -> anyhow::Result<Status> {
        let tally = Tally::count(source).map_err(|error| trace::about(path, error))?;
        if !self.options.quiet {
            ui::complain(&format!("{}: {}", ui::path(path), contents(source, &tally)));
        }
        trace::warn_of_damage(path, &tally.diagnostics, tally.more_diagnostics);
        if !self.options.quiet {
            ui::complain(&format!("next: fdr report {}", ui::shell(path)));
        }
        Ok(match tally.diagnostics.is_empty() {
            true => Status::Done,
            false => Status::Violations,
        })
    }
}

/// Format, program, threads, records, lost ones.
fn contents(source: &dyn Source, tally: &Tally) -> String {
    let info = source.info();
    let mut parts = vec![ui::clean(&info.format).into_owned()];
    parts.extend(trace::program(info).map(|program| format!("program {program}")));
    parts.push(ui::things(tally.threads().count() as u64, "thread"));
    parts.push(ui::things(tally.records(), "record"));
    let lost = match tally.counts() {
        Some((counts, _)) => counts.overwritten.saturating_add(counts.dropped),
        None => 0,
    };
    parts.push(format!("{} lost", ui::count(lost.max(tally.marks().lost))));
    parts.join(", ")
}

impl End {
    /// How the stream ended, in words. `None`: it ended as it should.
    fn in_words(&self) -> Option<String> {
        match self {
            End::Closed => None,
            End::Broken(error) => Some(format!("the connection broke: {error}")),
            End::Limit => Some("the most that is taken is reached (--max-size)".to_owned()),
            End::Stopped => Some("ended by a signal".to_owned()),
            End::WriteFailed(error) => Some(format!("no more can be written: {error}")),
        }
    }
}

/// The name of the `number`th file: `app.htdump`, `app.2.htdump`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(end) = path.extension() {
        name.push(OsStr::new("."));
        name.push(end);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_before_their_end() {
        let name = |path: &str, number| numbered(Path::new(path), number);
        assert_eq!(name("a/app.htdump", 1), Path::new("a/app.htdump"));
        assert_eq!(name("a/app.htdump", 2), Path::new("a/app.2.htdump"));
        assert_eq!(name("app", 10), Path::new("app.10"));
    }

    #[test]
    fn limits() {
        assert_eq!(max_size("2K"), Ok(2048));
        assert!(max_size("0").unwrap_err().contains("1 byte"));
        assert!(max_size("x").is_err());
    }
}
