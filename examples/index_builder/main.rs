//! A program that does real work on several threads. It makes up documents, cuts them into words, and builds an
//! inverted index with a pool of named threads. What it prints on stdout depends on `--documents` alone: never on
//! threads, on time, or on whether it is recorded.
//!
//! ```text
//! cargo build --release -p fdr-examples --example index_builder
//! FDR=1 target/release/examples/index_builder --seconds 5 --threads 2
//! ```
//!
//! Every traced function counts its own calls, too. `--counts FILE` writes these counts as JSON, so a trace can be
//! compared with them.

mod counts;
mod index;
mod pool;
mod text;
mod tokens;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use counts::{Counts, Function, count};
use fdr::traced;
use index::Index;
use pool::Pool;

/// Documents of one job; fixed, so that the calls of a pass do not depend on the threads.
const BATCH: u32 = 64;

const HELP: &str = "\
Builds an inverted index over generated text.

Usage: index_builder [OPTIONS]
  --documents N   documents to index (default 4000)
  --threads N     threads of the pool (default 2)
  --seconds S     repeat whole passes for so long (default 3)
  --passes N      do exactly N passes instead
  --counts FILE   write the calls of every traced function as JSON";

struct Options {
    documents: u32,
    threads: usize,
    seconds: f64,
    passes: Option<u32>,
    counts: Option<PathBuf>,
}

impl Options {
    /// `None`: help was asked for.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let mut options = Options {
            documents: 4_000,
            threads: 2,
            seconds: 3.0,
            passes: None,
            counts: None,
        };
        while let Some(name) = arguments.next() {
            if name == "--help" || name == "-h" {
                return Ok(None);
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            let bad = |what: &str| format!("{name} {value}: expected {what}");
            match name.as_str() {
                "--documents" => options.documents = value.parse().map_err(|_| bad("a number"))?,
                "--threads" => options.threads = value.parse().map_err(|_| bad("a number"))?,
                "--seconds" => options.seconds = value.parse().map_err(|_| bad("seconds"))?,
                "--passes" => options.passes = Some(value.parse().map_err(|_| bad("a number"))?),
                "--counts" => options.counts = Some(value.into()),
                _ => return Err(format!("unknown option {name}; see --help")),
            }
        }
        if options.documents == 0 || options.threads == 0 || options.passes == Some(0) {
            return Err("documents, threads and passes start at 1".to_owned());
        }
        Ok(Some(options))
    }

    fn enough(&self, passes: u32, since: Instant) -> bool {
        match self.passes {
            Some(wanted) => passes >= wanted,
            None => {
                let limit = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
                since.elapsed() >= limit
            }
        }
    }
}

/// One pass: every document indexed, the partial indexes merged in the documents' order.
#[traced]
fn build(pool: &Pool, documents: u32) -> Index {
    count(Function::Build);
    let batches: Vec<_> = (0..documents)
        .step_by(BATCH as usize)
        .map(|first| first..documents.min(first.saturating_add(BATCH)))
        .collect();
    let mut parts = pool.index(batches);
    while parts.len() > 1 {
        parts = pool.merge(parts);
    }
    parts.pop().unwrap_or_default()
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let since = Instant::now();
    let pool = Pool::start(options.threads)?;
    let mut passes = 0;
    let mut summary = None;
    while passes == 0 || !options.enough(passes, since) {
        let found = build(&pool, options.documents).summary();
        if summary.is_some_and(|before| before != found) {
            return Err(format!("pass {passes} found {found}, the pass before another").into());
        }
        summary = Some(found);
        passes += 1;
    }
    let mut threads = pool.finish();
    threads.insert(0, Counts::take());
    if let Some(summary) = summary {
        println!("{} documents: {summary}", options.documents);
    }
    let seconds = since.elapsed().as_secs_f64();
    let (es, s) = (
        if passes == 1 { "" } else { "es" },
        if options.threads == 1 { "" } else { "s" },
    );
    eprintln!(
        "{passes} pass{es} on {} thread{s} in {seconds:.2} s",
        options.threads
    );
    if let Some(path) = &options.counts {
        std::fs::write(path, counts::json(&threads))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let outcome = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            println!("{HELP}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("index_builder: {error}");
            ExitCode::FAILURE
        }
    }
}
