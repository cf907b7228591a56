//! `fdr` without a command: the newest traces here, the programs that record here, and what to do with them.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::rings;
use crate::ring::{self, Owner, Ring};
use crate::{input, output_file, trace, ui};

/// Traces and processes that are listed.
const MAX_LISTED: usize = 5;

/// Prints what is here; whether there was anything.
///
/// # Errors
/// Where nothing can be printed.
pub(crate) fn show() -> anyhow::Result<bool> {
    let traces = input::newest_here();
    let running = running();
    if traces.is_empty() && running.is_empty() {
        return Ok(false);
    }
    ui::print(|out| {
        list(out, "Recording:", &running, |ring| {
            let process = ring.number_here.unwrap_or(ring.process);
            let name = ui::path(ring.path());
            format!("{process}  {name}: fdr top {process}, fdr dump {process}")
        })?;
        list(out, "Newest traces:", &traces, |path| about(path))?;
        let Some(newest) = traces.first().map(|path| ui::shell(path)) else {
            return Ok(());
        };
        let width = "fdr slow ".len() + newest.chars().count();
        writeln!(out, "Next:")?;
        for (command, what) in [
            ("fdr", "where the time went, and what was slow"),
            ("fdr slow", "the slowest calls, and why"),
            ("fdr view", "all threads in a browser"),
        ] {
            writeln!(out, "  {:<width$}  {what}", format!("{command} {newest}"))?;
        }
        writeln!(out, "fdr --help lists all commands")?;
        Ok(())
    })?;
    Ok(true)
}

/// A heading, and a line for each of the first things.
fn list<T>(
    out: &mut dyn Write,
    heading: &str,
    things: &[T],
    line: impl Fn(&T) -> String,
) -> anyhow::Result<()> {
    if things.is_empty() {
        return Ok(());
    }
    writeln!(out, "{heading}")?;
    for thing in things.iter().take(MAX_LISTED) {
        let line = ui::paragraph(&format!("  {}", line(thing)), 4);
        writeln!(out, "{line}")?;
    }
    match things.len().saturating_sub(MAX_LISTED) {
        0 => Ok(()),
        more => Ok(writeln!(out, "  and {}", ui::things(more as u64, "other"))?),
    }
}

/// The rings of processes that run.
fn running() -> Vec<Ring> {
    let folders = rings::default_folders();
    let files = folders
        .iter()
        .filter_map(|folder| ring::in_folder(folder).ok());
    let files: Vec<PathBuf> = files.flatten().collect();
    let rings = Ring::read_all(&files).into_iter().flatten();
    rings.filter(|ring| ring.owner == Owner::Runs).collect()
}

/// A trace: its size, how long ago it was written, and why.
fn about(path: &Path) -> String {
    let age = path.metadata().and_then(|file| file.modified());
    let age = age.ok().and_then(|written| written.elapsed().ok());
    let age = age.map_or(String::new(), |age| {
        format!(", {} ago", rough(age.as_secs()))
    });
    let reason = match input::open(path) {
        Ok(source) => ui::clean(&trace::occasion(source.info())).into_owned(),
        Err(_) => "can't be read; fdr info says why".to_owned(),
    };
    let reason = match reason.as_str() {
        "" => String::new(),
        reason => format!(", written {reason}"),
    };
    format!(
        "{}  {}{age}{reason}",
        ui::path(path),
        ui::size(output_file::size(path))
    )
}

/// A time in one unit, without the lower digits.
pub(super) fn rough(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_rough() {
        assert_eq!(rough(119), "119 s");
        assert_eq!(rough(120), "2 min");
        assert_eq!(rough(7200), "2 h");
        assert_eq!(rough(172_800), "2 days");
    }
}
