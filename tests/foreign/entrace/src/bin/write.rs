//! Writes an ENTRACE file through the `tracing` crate, with ENTRACE's own layer, and prints what it
//! recorded: `write VERSION et|iet|prefix PATH`. Nothing in here knows the format.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Cursor;
use std::sync::{Arc, Mutex};
use std::thread;

use fdr_foreign_entrace::Error;
use tracing::{Dispatch, debug_span, error_span, info, info_span, warn};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

/// What was recorded: how often each name, and the sum of all its numbers.
#[derive(Default)]
struct Counts {
    entries: Mutex<BTreeMap<String, u64>>,
    sum: Mutex<u64>,
}

impl Counts {
    fn add(&self, name: &str, number: u64) {
        *self
            .entries
            .lock()
            .unwrap()
            .entry(name.to_owned())
            .or_default() += 1;
        *self.sum.lock().unwrap() += number;
    }
}

/// The name that `tracing` gives an event of this file.
fn event(line: u32) -> String {
    format!("event src/bin/write.rs:{line}")
}

/// A tree of spans and events on the calling thread.
fn work(depth: u64, counts: &Counts) {
    let span = info_span!("work", depth, text = "quotes \" and ünïcode", ratio = 0.5);
    counts.add("work", depth);
    let _inside = span.enter();
    for number in 0..depth {
        let leaf = debug_span!("leaf", number, negative = -1);
        counts.add("leaf", number);
        leaf.in_scope(|| {
            counts.add(&event(line!() + 1), number * 1000);
            info!(number = number * 1000, flag = true, "in a leaf");
        });
    }
    if depth > 0 {
        work(depth - 1, counts);
    }
    counts.add("apart", 0);
    error_span!(parent: None, "apart").in_scope(|| {
        counts.add(&event(line!() + 1), 0);
        warn!("done");
    });
}

fn record(dispatch: &Dispatch, counts: &Counts) {
    thread::scope(|scope| {
        for depth in 3..6 {
            scope
                .spawn(move || tracing::dispatcher::with_default(dispatch, || work(depth, counts)));
        }
    });
}

fn create(path: &str) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    Ok(options.read(true).write(true).create_new(true).open(path)?)
}

macro_rules! write {
    ($core:ident, $container:expr, $path:expr, $counts:expr) => {{
        use $core::TreeLayer;
        use $core::mmap::ETStorage;
        use $core::remote::{IETStorage, IETStorageConfig};
        if $container == "et" {
            let storage = Arc::new(ETStorage::init(Cursor::new(Vec::new())));
            let layer = TreeLayer::from_storage(storage.clone());
            record(&Dispatch::new(Registry::default().with(layer)), $counts);
            storage
                .finish(create($path)?)
                .map_err(|error| error.to_string())?;
        } else {
            let file = create($path)?;
            let config = if $container == "prefix" {
                IETStorageConfig::length_prefixed(file)
            } else {
                IETStorageConfig::non_length_prefixed(file)
            };
            let storage = Arc::new(IETStorage::init(config));
            let layer = TreeLayer::from_storage(storage.clone());
            record(&Dispatch::new(Registry::default().with(layer)), $counts);
            storage.finish().map_err(|error| error.to_string())?;
        }
    }};
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [version, container, path] = &arguments[..] else {
        return Err("usage: write VERSION et|iet|prefix PATH".into());
    };
    let counts = Counts::default();
    if version == "1" {
        write!(entrace_core_1, container, path, &counts);
    } else {
        write!(entrace_core_2, container, path, &counts);
    }
    println!("sum {}", counts.sum.lock().unwrap());
    for (name, count) in &*counts.entries.lock().unwrap() {
        println!("{count} {name}");
    }
    Ok(())
}
