//! What the page shows: traces, or snapshots of a process that runs, which are replaced by newer ones.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::Context;

use super::filler::fill;
use super::viewed::ViewedTrace;
use crate::ring::find;
use crate::ring::find::process_number;
use crate::{clock, memory, ui};

/// The traces, and the number of the snapshot if they are one.
type Traces = (Vec<Arc<ViewedTrace>>, Option<u64>);

/// What is shown.
pub(super) struct LiveTraces {
    process: Option<u32>,
    now: RwLock<Traces>,
    /// Held while a snapshot is taken.
    taking: Mutex<()>,
}

/// The process, if the only argument is a number and no file has that name.
pub(super) fn process(named: &[PathBuf]) -> Option<u32> {
    let [name] = named else { return None };
    let number = process_number(name.to_str()?).ok()?;
    (!name.exists()).then_some(number)
}

impl LiveTraces {
    /// Traces, which begin to be read.
    pub(super) fn of_traces(traces: Vec<Arc<ViewedTrace>>) -> LiveTraces {
        LiveTraces::begin(None, (traces, None))
    }

    /// A process, of which a snapshot is taken.
    ///
    /// # Errors
    /// If it can't be looked into, or does not record.
    pub(super) fn of_process(process: u32) -> anyhow::Result<LiveTraces> {
        Ok(LiveTraces::begin(Some(process), (take(process)?, Some(1))))
    }

    fn begin(process: Option<u32>, now: Traces) -> LiveTraces {
        read(&now.0);
        LiveTraces {
            process,
            now: RwLock::new(now),
            taking: Mutex::default(),
        }
    }

    pub(super) fn traces(&self) -> Traces {
        self.now
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether another file stands in the place of one that is shown.
    pub(super) fn are_files_replaced(&self) -> bool {
        self.traces().0.iter().any(|viewed| viewed.is_replaced())
    }

    /// Takes a new snapshot of the process.
    ///
    /// # Errors
    /// If there is no process any more. The former snapshot stays.
    pub(super) fn renew(&self) -> anyhow::Result<()> {
        let process = self
            .process
            .context("this page shows traces, and no process")?;
        let _taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let traces = take(process)?;
        read(&traces);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        *now = (traces, now.1.map(|number| number + 1));
        Ok(())
    }
}

/// Begins to read them, each on a thread of its own.
fn read(traces: &[Arc<ViewedTrace>]) {
    for viewed in traces {
        let viewed = viewed.clone();
        std::thread::spawn(move || fill(&viewed.index, &*viewed.source));
    }
}

/// A snapshot of each ring of a process: a process may have two copies of the recorder.
fn take(process: u32) -> anyhow::Result<Vec<Arc<ViewedTrace>>> {
    let rings = find::rings(process, find::RingAccess::Reading)?;
    // Two snapshots exist for a moment, so each may take half of the limit. Half of that is for the index.
    let bytes = memory::limit() / 4 / rings.len().max(1) as u64;
    let of_ring = |mut mapped: find::Mapped| -> anyhow::Result<Arc<ViewedTrace>> {
        if let Some(now) = clock::monotonic_raw_ns() {
            mapped.ring.lasts_until(now);
        }
        let info = mapped.ring.take_info("snapshot");
        let copied = mapped.ring.to_trace(&info);
        let (source, copied) = copied.with_context(|| ui::path(&mapped.path))?;
        let name = format!("process {process}");
        let mut viewed = ViewedTrace::new(Path::new(&name), Arc::new(source), bytes);
        viewed.is_file = false;
        if copied.moved > 0 {
            let threads = ui::things(copied.moved, "thread");
            viewed.notes.push(format!(
                "{threads} that ended during the snapshot, and whose rings were reused, are not in it"
            ));
        }
        Ok(Arc::new(viewed))
    };
    rings.into_iter().map(of_ring).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_alone_is_a_process() {
        let named = |name: &str| process(&[PathBuf::from(name)]);
        assert_eq!(named("1234"), Some(1234));
        assert_eq!(
            [named("0"), named("-1"), named("a.fdr"), named("")],
            [None; 4]
        );
        assert_eq!(process(&["1".into(), "2".into()]), None);
    }

    #[test]
    fn traces_are_not_replaced() {
        let shown = LiveTraces::of_traces(Vec::new());
        assert!(shown.renew().is_err());
        assert!(shown.traces().1.is_none());
    }
}
