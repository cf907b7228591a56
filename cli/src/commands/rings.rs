//! `fdr rings`: the ring files in folders, and what has become of their processes. A process is running if it has the
//! file mapped.

use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Status;
use crate::columns::Columns;
use crate::report::json;
use crate::ring::{self, Owner, Ring};
use crate::{input, ui};

/// Bytes of a block, as the system counts them.
const BLOCK: u64 = 512;

/// The state of a ring that this command removed.
const REMOVED: &str = "removed";

const HELP: &str = "\
States:
  running          a process has the file mapped
  dead             its process has ended
  crashed SIGSEGV  its process crashed by that signal
  perhaps          a process of that number exists, and fdr may not inspect it
  unreadable       fdr says on stderr what is wrong

The size is the space that the ring takes on the disk. The file's own size is
larger, because the file has holes.

--remove dead removes the rings whose processes have ended, crashed ones too. It
removes no other. fdr dump --remove makes their traces first.

Examples:
  fdr rings              here, and where FDR_DIR says
  fdr rings /dev/shm traces/ --json
  fdr rings | grep dead  what fdr dump can make traces of
  fdr rings --remove dead";

/// List ring files, of running and of dead processes
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// Folders, or ring files [default: the current folder, and FDR_DIR]
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Remove these rings, and print only them
    #[arg(long, value_name = "WHICH")]
    remove: Option<Which>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which rings are removed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Which {
    // Those whose processes have ended. A doc comment would make clap write the help in its long form.
    Dead,
}

/// One ring file.
#[derive(Debug, Default, Serialize)]
struct Row {
    path: String,
    state: String,
    program: String,
    process: Option<u32>,
    /// Unix time in ns.
    started_ns: Option<u64>,
    threads: u64,
    records: u64,
    disk_bytes: u64,
    /// Why it can't be read.
    error: Option<String>,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let (mut files, mut absent) = (Vec::new(), false);
    let looked = folders(options);
    for folder in looked.clone() {
        if let Err(error) = fs::metadata(&folder) {
            ui::complain(&format!("{}: {error}", ui::path(&folder)));
            absent = true;
        } else if folder.is_dir() {
            files.append(&mut ring::in_folder(&folder)?);
        } else {
            files.push(folder);
        }
    }
    let mut rings = Ring::read_all(&files);
    if let Some(Which::Dead) = options.remove {
        rings.retain(|ring| ring.as_ref().is_some_and(|ring| !ring.runs()));
        files = rings
            .iter()
            .flatten()
            .map(|ring| ring.path().to_owned())
            .collect();
    }
    let rows: Vec<Row> = files
        .iter()
        .zip(rings)
        .map(|(file, ring)| match options.remove {
            None => row(file, ring),
            Some(Which::Dead) => remove(file, ring),
        })
        .collect();
    for row in &rows {
        if let Some(error) = &row.error {
            ui::complain(error);
        }
    }
    let failed = options.remove.is_some() && rows.iter().any(|row| row.state != REMOVED);
    if options.json {
        ui::print(|out| json::print(out, &rows))?;
    } else {
        let what = match options.remove {
            None => "ring files",
            Some(Which::Dead) => "rings of dead processes",
        };
        ui::print(|out| write(out, &rows, what, &looked))?;
        if options.remove.is_some() && !rows.is_empty() {
            let removed = rows.iter().filter(|row| row.state == REMOVED);
            let bytes = removed.clone().map(|row| row.disk_bytes).sum();
            let removed = ui::things(removed.count() as u64, "ring");
            ui::complain(&format!("{removed} removed, {}", ui::size(bytes)));
        }
    }
    Ok(if absent || failed {
        Status::Code(2)
    } else {
        Status::Done
    })
}

/// Where to look.
fn folders(options: &Options) -> Vec<PathBuf> {
    match options.folders.as_slice() {
        [] => default_folders(),
        folders => folders.to_owned(),
    }
}

/// Where rings are unless the user says where: here, where `cargo run` may put them, and where `FDR_DIR` says.
pub(super) fn default_folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(".")];
    folders.extend(input::cargo_folder());
    let dir = env::var_os("FDR_DIR").filter(|dir| !dir.is_empty());
    if let Some(dir) = dir.map(PathBuf::from) {
        let same = dir.canonicalize().ok() == env::current_dir().ok();
        if dir.is_dir() && !same {
            folders.push(dir);
        }
    }
    folders
}

fn row(path: &Path, ring: Option<Ring>) -> Row {
    let disk = fs::metadata(path).map_or(0, |file| file.blocks().saturating_mul(BLOCK));
    let row = Row {
        path: path.to_string_lossy().into_owned(),
        disk_bytes: disk,
        ..Row::default()
    };
    match read(path, ring) {
        Ok(read) => Row {
            path: row.path,
            disk_bytes: disk,
            ..read
        },
        Err(error) => Row {
            state: "unreadable".into(),
            error: Some(format!("{error:#}")),
            ..row
        },
    }
}

/// Removes the ring of a process that has ended.
fn remove(path: &Path, ring: Option<Ring>) -> Row {
    let removed = ring::regular(path).and_then(|file| {
        let row = row(path, ring);
        ring::remove(path, &file)?;
        Ok(row)
    });
    match removed {
        Ok(row) => Row {
            state: REMOVED.to_owned(),
            error: None,
            ..row
        },
        Err(error) => Row {
            path: path.to_string_lossy().into_owned(),
            state: "unreadable".into(),
            error: Some(format!("{error:#}")),
            ..Row::default()
        },
    }
}

fn read(path: &Path, head: Option<Ring>) -> anyhow::Result<Row> {
    let (ring, _) = input::open_ring(path)?;
    let (threads, records) = ring.census()?;
    let owner = head.map_or(Owner::Perhaps, |head| head.owner);
    let state = match (owner, ring.crash()) {
        (Owner::Runs, _) => "running".to_owned(),
        (_, Some(crash)) => format!("crashed {}", crash.signal_name()),
        (Owner::Ended, None) => "dead".to_owned(),
        (Owner::Perhaps, None) => "perhaps".to_owned(),
    };
    Ok(Row {
        state,
        program: ring.program(),
        process: Some(ring.process()),
        started_ns: Some(ring.started()),
        threads,
        records,
        ..Row::default()
    })
}

fn write(out: &mut dyn Write, rows: &[Row], what: &str, folders: &[PathBuf]) -> anyhow::Result<()> {
    if rows.is_empty() {
        let text = |folder: &PathBuf| match folder.as_os_str() == "." {
            true => "the current folder".to_owned(),
            false => ui::path(folder),
        };
        let folders: Vec<String> = folders.iter().map(text).collect();
        let line = format!("no {what} in {}", folders.join(", "));
        writeln!(out, "{}", ui::paragraph(&line, 2))?;
        return Ok(());
    }
    let head = [
        "pid", "threads", "records", "disk", "state", "started", "program", "path",
    ];
    let columns = Columns {
        // The path is what other commands need, and begins with the name of the program.
        text: 64,
        spare: &["started", "program", "threads", "disk"],
        ..Columns::new(&head, 4)
    };
    let line = |row: &Row| {
        let count = |count: u64| match row.error {
            None => ui::count(count),
            Some(_) => "-".to_owned(),
        };
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        // Seconds will do for people.
        let started = row.started_ns.map(|started| {
            let text = ui::utc(started);
            text.split('.').next().unwrap_or_default().to_owned() + "Z"
        });
        let program = match row.program.as_str() {
            "" => "-".into(),
            program => ui::clean(program).into_owned(),
        };
        vec![
            or_none(row.process.map(|process| process.to_string())),
            count(row.threads),
            count(row.records),
            ui::size(row.disk_bytes),
            row.state.clone(),
            or_none(started),
            program,
            ui::clean(&row.path).into_owned(),
        ]
    };
    columns.write(out, || rows.iter().map(line))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless_in_a_table() {
        let row = Row {
            path: "a\x1b[2J.fdr-ring".into(),
            state: "dead".into(),
            program: "x\ny".into(),
            process: Some(7),
            started_ns: Some(951_782_400_000_000_000),
            threads: 2,
            records: 1234,
            disk_bytes: 1 << 20,
            error: None,
        };
        let mut out = Vec::new();
        write(&mut out, &[row], "ring files", &[]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let wanted = [
            "7",
            "2",
            "1,234",
            "1.0",
            "MiB",
            "dead",
            "2000-02-29T00:00:00Z",
            "x\\ny",
            "a\\u{1b}[2J.fdr-ring",
        ];
        assert_eq!(words, wanted);
    }
}
