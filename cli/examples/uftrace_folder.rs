//! Writes the calls of any trace as a folder of uftrace's: for measuring its reader on the same calls. Nothing
//! but calls is written: no payloads, no CPUs, and functions by their addresses.
//!
//! ```text
//! cargo run --release -p fdr-cli --example uftrace_folder -- TRACE OUT
//! ```
//!
//! A record of a thread's file is 16 bytes, little-endian, as uftrace 0.13 records them:
//!
//! | bits | field |
//! | --- | --- |
//! | 0 to 63 | time, ns |
//! | 64 to 65 | 0 entered, 1 left |
//! | 66 | 1: arguments follow |
//! | 67 to 69 | 5 |
//! | 70 to 79 | depth |
//! | 80 to 127 | address |
#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use fdr_formats::source::drive;
use fdr_formats::{Call, Clock, Diagnostic, Edge, Mark, Sink, Source, Thread, ThreadId, registry};

const RECORD: usize = 16;
/// Where the program lies, and bytes of a function.
const BASE: u64 = 0x40_0000;
const FUNCTION: u64 = 16;
const SESSION: &str = "0123456789abcdef";
/// Sessions of tasks, addresses of symbols from the program's start, the deepest stack.
const FEATURES: u64 = 1 << 1 | 1 << 5 | 1 << 6;
/// The program's name and the tasks.
const INFO: u64 = 1 << 0 | 1 << 7;
const MAX_STACK: u16 = 1023;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(trace), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: uftrace_folder TRACE OUT".into());
    };
    let source = registry::open_path(&trace)?;
    fs::create_dir(&out)?;
    let mut writer = Writer {
        folder: out.clone(),
        clock: source.info().clock.clone(),
        file: None,
        depth: 0,
        failed: None,
    };
    drive(&*source, &mut writer, &|_| {})?;
    writer.end()?;
    tables(&*source, &out)?;
    Ok(())
}

/// Everything beside the calls.
fn tables(source: &dyn Source, out: &Path) -> Result<(), Box<dyn Error>> {
    let info = source.info();
    let ids: Vec<String> = info
        .threads
        .iter()
        .map(|thread| thread.id.0.to_string())
        .collect();
    let process = ids.first().ok_or("a trace without threads")?;
    let mut head = b"Ftrace!\0".to_vec();
    head.extend(4_u32.to_le_bytes());
    head.extend(40_u16.to_le_bytes());
    head.extend([1, 2]);
    head.extend(FEATURES.to_le_bytes());
    head.extend(INFO.to_le_bytes());
    head.extend(MAX_STACK.to_le_bytes());
    head.extend([0; 6]);
    let lines = format!(
        "exename:/app\ntaskinfo:lines=2\ntaskinfo:nr_tid={}\ntaskinfo:tids={}\n",
        ids.len(),
        ids.join(",")
    );
    head.extend(lines.as_bytes());
    fs::write(out.join("info"), head)?;
    let mut tasks =
        format!("SESS timestamp=0.000000001 pid={process} sid={SESSION} exename=\"/app\"\n");
    for id in &ids {
        writeln!(tasks, "TASK timestamp=0.000000002 tid={id} pid={process}")?;
    }
    fs::write(out.join("task.txt"), tasks)?;
    let last = info.functions.iter().map(|function| function.id.0).max();
    let size = (u64::from(last.unwrap_or(0)) + 2) * FUNCTION;
    let end = BASE + size.next_multiple_of(4096);
    let map = format!("{BASE:012x}-{end:012x} r-xp 00000000 00:00 0      /app\n");
    fs::write(out.join(format!("sid-{SESSION}.map")), map)?;
    fs::write(out.join("default.opts"), "")?;
    Ok(())
}

/// A file for each thread, which come one after the other.
struct Writer {
    folder: PathBuf,
    clock: Clock,
    file: Option<(ThreadId, BufWriter<File>)>,
    depth: u64,
    failed: Option<std::io::Error>,
}

impl Writer {
    fn end(mut self) -> std::io::Result<()> {
        let flushed = self
            .file
            .take()
            .map_or(Ok(()), |(_, mut file)| file.flush());
        self.failed.take().map_or(flushed, Err)
    }

    fn begin(&mut self, id: ThreadId) -> std::io::Result<()> {
        if let Some((_, mut file)) = self.file.take() {
            file.flush()?;
        }
        let path = self.folder.join(format!("{}.dat", id.0));
        let file = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
        (self.file, self.depth) = (Some((id, file)), 0);
        Ok(())
    }

    fn write(&mut self, calls: &[Call]) -> std::io::Result<()> {
        let Some((_, file)) = &mut self.file else {
            return Ok(());
        };
        for call in calls {
            let left = u64::from(call.edge != Edge::Entry);
            self.depth = self.depth.saturating_sub(left);
            let address = BASE + u64::from(call.function.0) * FUNCTION;
            let depth = self.depth.min(MAX_STACK.into());
            let word = left | 5 << 3 | depth << 6 | address << 16;
            let mut record = [0; RECORD];
            record[..8].copy_from_slice(&self.clock.nanos(call.time).0.to_le_bytes());
            record[8..].copy_from_slice(&word.to_le_bytes());
            file.write_all(&record)?;
            self.depth += 1 - left;
        }
        Ok(())
    }
}

impl Sink for Writer {
    fn thread(&mut self, thread: &Thread) {
        if self.file.as_ref().is_none_or(|(id, _)| *id != thread.id) {
            let begun = self.begin(thread.id).err();
            self.failed = self.failed.take().or(begun);
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        let written = self.write(calls).err();
        self.failed = self.failed.take().or(written);
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, _: Diagnostic) {}
}
