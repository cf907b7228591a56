//! `fdr-fleet export`: from traces to files of a store. A trace is decoded twice: for the figures of `fdr report`, of
//! which its key is made, and for its calls and events. Its files count once its commits are made. Must never take more
//! memory for a longer trace.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`spans`] | calls and events as rows, decoded on all cores |
//! | [`encode`] | rows as Parquet, on all cores |
//! | [`statistics`] | the small tables |
//! | [`lengths`] | buckets of lengths of calls |
//! | [`columns`], [`part`] | rows as columns; files on their way into the store |

mod columns;
mod encode;
mod lengths;
pub(crate) mod part;
mod spans;
mod statistics;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anyhow::{Context, bail};
use fdr_cli::fleet::{self, TraceFigures};
use fdr_formats::source::drive_parallel;
use fdr_formats::states::States;
use fdr_formats::{Source, Ticks};
use indicatif::{ProgressBar, ProgressStyle};

use self::encode::Shared;
use self::part::{Finished, Part};
use self::spans::SpanSink;
use crate::keys::Keys;
use crate::manifest::{self, Commit};
use crate::schema::VERSION;
use crate::store::Store;
use crate::{Status, complain};

/// Write traces to a folder or a bucket, as Parquet
///
/// Any format that fdr reads, ring files and packed traces too. A trace that is
/// there already is left out, under whatever name and in whatever format.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Traces, or folders of traces; `-` is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// A folder, which is made, or s3://BUCKET/PREFIX (AWS_… variables)
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// No spans and no events: statistics of functions, threads and losses alone
    #[arg(long)]
    only_stats: bool,
    /// The most threads that work [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = crate::jobs_of)]
    jobs: Option<NonZeroUsize>,
    /// The most memory for what is known of a trace: bytes, or with K, M or G
    #[arg(long, value_name = "SIZE", value_parser = crate::size_of, default_value = "1G")]
    max_memory: u64,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    fleet::prepare(options.max_memory, options.jobs);
    let mut traces = Vec::new();
    let (mut failed, mut status) = (0, Status::Done);
    for named in &options.traces {
        match fleet::traces(named) {
            Ok(found) => traces.extend(found),
            Err(error) => {
                complain(&format!("{error:#}"));
                failed += 1;
            }
        }
    }
    let store = Store::open(&options.to, true)?;
    let (mut written, mut known) = (0, 0);
    for path in &traces {
        match one(&store, path, options.only_stats) {
            Ok(done) => {
                written += u64::from(done.is_new);
                known += u64::from(!done.is_new);
                if let Some(damage) = done.damage {
                    complain(&format!(
                        "{}: the trace is damaged: {damage}: the rest is exported",
                        path.display()
                    ));
                    status = Status::LeftOut;
                }
            }
            Err(error) => {
                complain(&format!("{error:#}"));
                failed += 1;
            }
        }
    }
    if failed > 0 && written + known == 0 {
        bail!("no trace was exported");
    }
    println!("{written} exported, {known} were there already, {failed} failed");
    Ok(if failed > 0 { Status::LeftOut } else { status })
}

/// What came of a trace.
struct ExportedTrace {
    is_new: bool,
    damage: Option<String>,
}

fn one(store: &Store, path: &Path, only_stats: bool) -> anyhow::Result<ExportedTrace> {
    let source = fleet::open(path)?;
    let source = &*source;
    let figures = fleet::figures(path, source)?;
    let keys = Keys::new(source.info(), &figures);
    let (stats, detail) = (
        format!("{}.stats", keys.trace),
        format!("{}.detail", keys.trace),
    );
    let known = manifest::has(store, &keys.date, [&stats, &detail]);
    let [has_stats, has_detail] = known.with_context(|| path.display().to_string())?;
    let damage = figures.damage.as_ref().map(|(count, first)| match count {
        1 => first.clone(),
        2 => format!("{first}, and 1 more place"),
        _ => format!("{first}, and {} more places", count - 1),
    });
    let mut done = ExportedTrace {
        is_new: false,
        damage,
    };
    let stem = format!(
        "{}-{}",
        keys.trace,
        &uuid::Uuid::new_v4().simple().to_string()[..12]
    );
    if !has_stats {
        let files = statistics(store, source, &figures, &keys, &stem)?;
        done.is_new |= commit(store, &keys, stats, files)?;
    }
    if !only_stats && !has_detail {
        let files = detail_of(store, path, source, &figures, &keys, &stem)?;
        done.is_new |= commit(store, &keys, detail, files)?;
    }
    Ok(done)
}

/// Makes the files part of the store, and then makes them count. `false`: another export of the trace was faster.
fn commit(store: &Store, keys: &Keys, name: String, files: Vec<Finished>) -> anyhow::Result<bool> {
    let files = files.into_iter().map(|file| file.publish(store));
    let files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let path = manifest::commit_path(&keys.date, &name);
    let commit = Commit {
        schema: VERSION,
        name,
        files,
    };
    let text = serde_json::to_vec(&commit).context("a commit")?;
    if store.make(&path, text)? {
        return Ok(true);
    }
    let paths: Vec<String> = commit.files.into_iter().map(|file| file.path).collect();
    store.remove(&paths)?;
    Ok(false)
}

fn statistics(
    store: &Store,
    source: &dyn Source,
    figures: &TraceFigures,
    keys: &Keys,
    stem: &str,
) -> anyhow::Result<Vec<Finished>> {
    let partition = format!("date={}/host={}", keys.date, keys.host);
    let mut files = Vec::new();
    for (table, batch) in statistics::tables(source.info(), figures, keys)? {
        let mut part = Part::new(store, table, &partition, stem.to_owned());
        part.write(&batch)?;
        files.extend(part.finish()?);
    }
    Ok(files)
}

/// Spans and events: decoders give batches to as many encoders.
fn detail_of(
    store: &Store,
    path: &Path,
    source: &dyn Source,
    figures: &TraceFigures,
    keys: &Keys,
    stem: &str,
) -> anyhow::Result<Vec<Finished>> {
    let info = source.info();
    let windows = figures.threads.iter().filter_map(|thread| thread.window);
    let first = windows.map(|(first, _)| first).min().unwrap_or(Ticks(0));
    let shared = Shared::new(store, keys, info, first);
    let states = (!info.schedule.switches.is_empty()).then(|| States::new(&info.schedule));
    let jobs = fleet::jobs();
    let (sender, receiver) = sync_channel(jobs);
    let batches = Mutex::new(receiver);
    let bar = bar_of(source, path);
    std::thread::scope(|scope| {
        let encoders: Vec<_> = (0..jobs)
            .map(|nth| {
                let (shared, batches) = (&shared, &batches);
                let stem = format!("{stem}-{nth}");
                scope.spawn(move || {
                    let files = encode::run(shared, batches, &stem);
                    if files.is_err() {
                        // Otherwise a decoder would wait for ever until an encoder takes its batch.
                        let waiting = batches.lock().unwrap_or_else(|error| error.into_inner());
                        while waiting.recv().is_ok() {}
                    }
                    files
                })
            })
            .collect();
        let make = || SpanSink::new(source, states.as_ref(), sender.clone());
        let sinks = drive_parallel(source, jobs, make, &|bytes| bar.inc(bytes));
        let decoded = sinks.map(|sinks| sinks.into_iter().for_each(SpanSink::finish));
        drop(sender);
        let mut files = Vec::new();
        for encoder in encoders {
            match encoder.join() {
                Ok(found) => files.extend(found?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        decoded.map_err(|error| fleet::about(path, error))?;
        bar.finish_and_clear();
        Ok(files)
    })
}

/// Shown on a terminal alone.
fn bar_of(source: &dyn Source, path: &Path) -> ProgressBar {
    let total = (0..source.lanes())
        .map(|lane| source.lane_bytes(lane))
        .sum();
    let bar = ProgressBar::new(total);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| !c.is_control()).take(30).collect();
    if let Ok(style) =
        ProgressStyle::with_template("{msg} {wide_bar} {bytes} of {total_bytes}, {eta} left")
    {
        bar.set_style(style);
    }
    bar.set_message(name);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
