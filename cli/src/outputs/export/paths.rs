//! Sums by path of calls, for exports that have no time axis: the paths of `fdr flame`, with its bound on their number.

use std::io::{self, Write};
use std::sync::Arc;

use fdr_formats::calls::untimed;
use fdr_formats::packed::Packed;
use fdr_formats::{Call, Diagnostic, Error, Losses, Mark, Sink, Source, Thread, Writer};

use super::facts::Facts;
use super::left_out::LeftOut;
use super::{Capabilities, Out};
use crate::trace;
use crate::tree::call_tree::Label;
use crate::tree::folder::{Folder, gather};

pub(super) use crate::tree::folder::Folded;

/// What such formats have a place for.
pub(super) const HOLDS: Capabilities = Capabilities {
    clipped: true,
    sums: true,
    ..Capabilities::NONE
};

/// Writes what was summed up.
pub(super) type WriteSums = fn(&mut Out, &Facts, &Folded) -> anyhow::Result<()>;

/// Sums up, and writes in the end.
pub(super) struct Paths {
    out: Out,
    facts: Arc<Facts>,
    folder: Folder,
    write: WriteSums,
    holds: Capabilities,
    losses: LeftOut,
    threads: u64,
}

impl Paths {
    pub(super) fn new(
        out: Out,
        facts: Arc<Facts>,
        source: &dyn Source,
        write: WriteSums,
        holds: Capabilities,
    ) -> Paths {
        let untimed = untimed(&facts.info);
        let folder = Folder::new(&untimed, false)
            .one_by_one(trace::has_lane_for_each_thread(source))
            .until(facts.info.end);
        Paths {
            out,
            facts,
            folder,
            write,
            holds,
            losses: LeftOut::default(),
            threads: 0,
        }
    }
}

impl Sink for Paths {
    fn thread(&mut self, thread: &Thread) {
        self.losses.thread(thread);
        self.threads += 1;
        self.folder.thread(thread);
    }

    fn calls(&mut self, calls: &[Call]) {
        self.folder.calls(calls);
    }

    fn packed(&mut self, packed: &Packed<'_>) {
        self.folder.packed(packed);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.losses.mark(mark);
        self.folder.mark(mark);
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for Paths {
    fn finish(mut self: Box<Self>) -> Result<Losses, Error> {
        let folded = gather(vec![self.folder]);
        let written = (self.write)(&mut self.out, &self.facts, &folded);
        written.map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => error,
            Err(error) => io::Error::other(error),
        })?;
        self.out.flush()?;
        let mut losses = self.losses.losses(&self.facts, self.holds);
        losses.add("threads: their calls are added up", self.threads);
        Ok(losses)
    }
}

/// The name of a part of a path.
pub(super) fn name(facts: &Facts, label: Label) -> String {
    match label {
        Label::Function(id) => facts.name(id),
        Label::Short => "[short]".to_owned(),
        Label::Root | Label::Thread(_) | Label::Others | Label::Open => "[more]".to_owned(),
    }
}
