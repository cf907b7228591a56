//! `fdr recover`: the rings that dead processes left become traces. Must never take a ring from a
//! process that runs, nor remove one of which anything is not in the trace.

pub(super) mod save;

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fdr_formats::writer::Target;

use self::save::Job;
use super::convert::{shape, target};
use super::{Status, each};
use crate::ring::{self, END, Owner};
use crate::{place, ui};

const HELP: &str = "\
A program that is killed, or that ends in another way without a dump, leaves its ring file,
PROGRAM.PID.RANDOM.fdr-ring, with every record that it had made. What is overwritten, dropped or
damaged is counted and said. What was cut off is added, as in a dump, so that calls nest.

A ring lives in the system's page cache and goes to the disk when the system likes: a crash of the
machine itself is not provided for.

The ring of a process that runs is refused: fdr snapshot PID takes it. Every command that reads a
trace reads a ring as well: fdr report app.1234.5f0c.fdr-ring.

Examples:
  fdr recover app.1234.5f0c9a.fdr-ring           app.1234.5f0c9a.fdr, beside it
  fdr recover /dev/shm -o traces/ --remove       all rings of dead processes there
  fdr recover app.1234.5f0c9a.fdr-ring --to ctf -o traces/app";

/// Turn the ring file of a process that was killed into a trace
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// Ring files, or folders: of those, every ring of a process that is gone
    #[arg(required = true, value_name = "RING")]
    rings: Vec<PathBuf>,
    /// The trace, or a folder for it [default: the ring's name with the format's own end]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// The format to write; fdr convert --help lists them
    #[arg(long, value_name = "FORMAT", value_parser = target::parse, default_value = "xray")]
    to: &'static Target,
    /// Remove the ring when the trace is in its place, and nothing of it is damaged
    #[arg(long)]
    remove: bool,
    /// Replace what is there under the trace's name
    #[arg(long)]
    force: bool,
    /// Say only what is wrong
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let rings = found(&options.rings)?;
    let several = rings.len() > 1;
    each(&rings, |ring| one(options, ring, several))
}

/// The rings that are meant: those that are named, and those of dead processes in folders.
fn found(asked: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut rings = Vec::new();
    for path in asked {
        if !path.is_dir() {
            rings.push(path.clone());
            continue;
        }
        let all = ring::in_folder(path)?;
        let runs = |file: &PathBuf| ring::Ring::read(file).is_some_and(|ring| ring.runs());
        let (living, dead): (Vec<PathBuf>, Vec<PathBuf>) = all.into_iter().partition(runs);
        let folder = ui::path(path);
        let living = match living.len() as u64 {
            0 => String::new(),
            count => format!("{} of running processes", ui::things(count, "ring")),
        };
        match (dead.is_empty(), living.as_str()) {
            (true, "") => bail!("{folder}: there is no ring in this folder"),
            (true, living) => bail!("{folder}: {living} and no others: see fdr snapshot"),
            (false, "") => {}
            (false, living) => ui::complain(&format!("{folder}: {living} passed over")),
        }
        rings.extend(dead);
    }
    Ok(rings)
}

fn one(options: &Options, path: &Path, several: bool) -> anyhow::Result<Status> {
    let (ring, file) = ring::open(path)?;
    let process = ring.process();
    let owner = ring::owner(process, path);
    if owner == Owner::Runs {
        bail!(
            "{}: process {process} is running: fdr snapshot {process} makes a trace meanwhile",
            ui::path(path)
        );
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let output = save::output(
        options.output.as_deref(),
        several,
        folder,
        &name(path, options.to),
    )?;
    let reason = match owner {
        Owner::Ended => "killed",
        Owner::Runs | Owner::Perhaps => "",
    };
    let job = Job {
        ring: path,
        to: options.to,
        force: options.force,
        quiet: options.quiet,
    };
    place::check(&output, shape(options.to), options.force)?;
    let saved = job.save(&ring, reason, &output)?;
    let what = match (ring.crash(), owner) {
        (Some(crash), _) => crash.to_string(),
        (None, Owner::Ended) => format!("process {process}, which ended without a dump"),
        (None, _) => format!("process {process}, of which nothing is known"),
    };
    job.tell(&saved, &what, &output);
    if options.remove {
        match (saved.is_whole(), owner) {
            (false, _) => keep(path, "is damaged"),
            (true, Owner::Ended) => remove(path, &file)?,
            (true, _) => keep(path, "may still be in use"),
        }
    }
    Ok(Status::Done)
}

fn keep(ring: &Path, why: &str) {
    ui::complain(&format!("{}: {why}, and is not removed", ui::path(ring)));
}

/// Removes the file that was read, and no other that has its name by now.
fn remove(path: &Path, file: &File) -> anyhow::Result<()> {
    let read = file.metadata().with_context(|| ui::path(path))?;
    let there = fs::metadata(path).with_context(|| ui::path(path))?;
    if (read.dev(), read.ino()) != (there.dev(), there.ino()) {
        bail!(
            "{}: is another file now, and is not removed",
            ui::path(path)
        );
    }
    fs::remove_file(path).with_context(|| ui::path(path))
}

/// What a trace of that ring is called.
fn name(ring: &Path, target: &Target) -> OsString {
    let name = ring.file_name().unwrap_or_default().as_bytes();
    let mut name = name.strip_suffix(END.as_bytes()).unwrap_or(name).to_vec();
    name.push(b'.');
    name.extend(target.extension.bytes());
    OsString::from_vec(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fdr_formats::registry;

    #[test]
    fn a_trace_is_named_after_its_ring() {
        let xray = registry::target("xray").unwrap();
        let of = |ring: &str| name(Path::new(ring), xray);
        assert_eq!(of("a/app.7.5f.fdr-ring"), "app.7.5f.fdr");
        assert_eq!(of("left behind"), "left behind.fdr");
    }

    #[test]
    fn another_file_of_the_name_is_not_removed() {
        let folder = std::env::temp_dir().join(format!("fdr-recover-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, other) = (folder.join("a.fdr-ring"), folder.join("b"));
        fs::write(&path, "ring").unwrap();
        let file = File::open(&path).unwrap();
        fs::write(&other, "other").unwrap();
        fs::rename(&other, &path).unwrap();
        let error = remove(&path, &file).unwrap_err().to_string();
        assert!(error.ends_with("is another file now, and is not removed"));
        remove(&path, &File::open(&path).unwrap()).unwrap();
        assert!(!path.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
