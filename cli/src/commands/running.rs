//! The process of a command line that names none: the only one that records.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;

use super::here::rough;
use crate::ring::find::{self, Recorder};
use crate::ui;

/// Processes that are listed.
const MAX_LISTED: usize = 5;

/// The named process, or the only one that records, among those that this user may look into. Then a line on stderr
/// says which one it is. `command`: as the user would type it in front of a process.
///
/// # Errors
/// If none is named, and no process records, or several do. Then they are listed on stderr.
pub(super) fn or_only(named: Option<u32>, command: &str) -> anyhow::Result<u32> {
    if let Some(process) = named {
        return Ok(process);
    }
    let recorders = find::recorders();
    if let [recorder] = &*recorders {
        ui::complain(&format!(
            "the only program that records: {}",
            in_words(recorder)
        ));
        return Ok(recorder.process);
    }
    for recorder in recorders.iter().take(MAX_LISTED) {
        ui::complain(&in_words(recorder));
    }
    match &*recorders {
        [] => {
            bail!("no program records, as far as this user sees: FDR=1 PROGRAM starts one")
        }
        [newest, ..] => {
            let programs = ui::count(recorders.len() as u64);
            bail!(
                "{programs} programs record: name one, as {command} {}",
                newest.process
            )
        }
    }
}

/// `process 4711, index_builder, started 12 min ago`
fn in_words(recorder: &Recorder) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    let age = now.saturating_sub(recorder.started_ns.into()) / 1_000_000_000;
    let age = rough(u64::try_from(age).unwrap_or(u64::MAX));
    format!(
        "process {}, {}, started {age} ago",
        recorder.process, recorder.program
    )
}
