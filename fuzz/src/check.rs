//! The checks of an input of a format, however damaged it is. The library opens, decodes and lists it without a panic.
//! Each target can write what was read. The library reads that output, and reports no problem if the input had none. If
//! the target says that nothing was lost, the output has as many calls as the input. This file knows no format's
//! layout.

use std::collections::HashMap;
use std::ops::ControlFlow;

use fdr_formats::registry::{Format, Opened, Opener};
use fdr_formats::source::drive;
use fdr_formats::writer::Target;
use fdr_formats::{Call, Diagnostic, Mark, Sink, Source, Thread, ThreadId, Ticks};

use super::folder::Folder;
use super::pack::unpack;
use super::test_output::TestOutput;

/// How many lines of a listing are read.
const LINES: u64 = 1 << 20;

/// Counts what comes.
#[derive(Default)]
struct Tally {
    /// Calls that were measured.
    calls: u64,
    /// The latest call of each thread, and the current thread.
    latest: HashMap<ThreadId, Ticks>,
    now: ThreadId,
    /// A thread's clock went back: its calls can't nest.
    went_back: bool,
    /// What was wrong, the first time.
    complaint: Option<Diagnostic>,
}

impl Sink for Tally {
    fn thread(&mut self, thread: &Thread) {
        self.now = thread.id;
    }

    fn calls(&mut self, calls: &[Call]) {
        self.calls += calls.iter().filter(|call| !call.synthetic).count() as u64;
        let latest = self.latest.entry(self.now).or_default();
        for call in calls {
            self.went_back |= call.time < *latest;
            *latest = call.time;
        }
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.complaint.get_or_insert(diagnostic);
    }
}

/// Makes all checks of an input of that format with those targets.
///
/// # Panics
/// If something does not hold.
pub(crate) fn check<'a>(format: &Format, input: &[u8], targets: impl Iterator<Item = &'a Target>) {
    let is_folder = matches!(format.opener, Opener::Folder { .. });
    let folder = is_folder.then(|| Folder::new().expect("a folder for temporary files"));
    let Ok(source) = open(format, input, folder.as_ref()) else {
        return;
    };
    let mut tally = Tally::default();
    // A file of a folder can be missing. It is no finding if the library notices this late.
    if drive(&*source, &mut tally, &|_| {}).is_err() {
        return;
    }
    let mut lines = 0;
    let _ = source.records(&mut |record| {
        std::hint::black_box(record.detail);
        lines += 1;
        if lines < LINES {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    let is_sound = source.diagnostics().is_empty() && tally.complaint.is_none() && !tally.went_back;
    for target in targets {
        let complaint = written(&*source, tally.calls, target);
        if is_sound {
            assert_eq!(complaint, None, "a complaint about own {}", target.name);
        }
    }
}

fn open(format: &Format, input: &[u8], folder: Option<&Folder>) -> Opened {
    match (format.opener, folder) {
        (Opener::File { open, .. }, _) => open(Box::new(input.to_vec())),
        (Opener::Folder { open, .. }, Some(folder)) => {
            unpack(input, folder.path())?;
            open(folder.path())
        }
        (Opener::Folder { .. }, None) => unreachable!("a folder format gets a folder"),
    }
}

/// Writes the events of the source, and reads the output back. Returns the first problem of the output.
fn written(source: &dyn Source, calls: u64, target: &Target) -> Option<Diagnostic> {
    let name = target.name;
    let place = TestOutput::new(target.kind).expect("a place to write to");
    let output = place.output().expect("a place to write to");
    let mut writer = (target.create)(output, source.info())
        .unwrap_or_else(|error| panic!("{name} can't be begun: {error}"));
    drive(source, &mut writer, &|_| {}).expect("what was read once can be read again");
    let losses = writer
        .finish()
        .unwrap_or_else(|error| panic!("{name} can't be written: {error}"));
    let back = place
        .open()
        .unwrap_or_else(|error| panic!("own {name} can't be opened: {error}"));
    let mut tally = Tally::default();
    drive(&*back, &mut tally, &|_| {})
        .unwrap_or_else(|error| panic!("own {name} can't be read: {error}"));
    if losses.is_empty() {
        assert_eq!(tally.calls, calls, "calls of {name}, which lost nothing");
    }
    back.diagnostics().first().cloned().or(tally.complaint)
}
