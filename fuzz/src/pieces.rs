//! What must hold for a trace that is decoded in pieces, on two threads: it gives the events that it gives
//! in one piece, in their order, and the same is wrong with it.

use std::collections::BTreeMap;

use fdr_formats::pieces::{Division, Join, drive_pieces};
use fdr_formats::source::drive;
use fdr_formats::{Call, Diagnostic, Mark, Sink, Source, Thread};

/// Least bytes of a piece: inputs are small.
const PIECES: [u64; 2] = [40, 300];

/// All that comes, as text, by thread.
#[derive(Debug, Default, PartialEq, Eq)]
struct Everything {
    events: BTreeMap<String, Vec<String>>,
    now: String,
    wrong: Vec<String>,
}

impl Everything {
    fn event(&mut self, event: String) {
        self.events.entry(self.now.clone()).or_default().push(event);
    }

    fn add(&mut self, other: Everything) {
        for (thread, events) in other.events {
            self.events.entry(thread).or_default().extend(events);
        }
        self.wrong.extend(other.wrong);
    }

    /// Without what is a matter of which lane was decoded first.
    fn in_order(mut self, lanes: usize) -> Everything {
        self.now.clear();
        self.wrong.sort();
        if lanes > 1 {
            self.events.values_mut().for_each(|events| events.sort());
        }
        self
    }
}

impl Sink for Everything {
    fn thread(&mut self, thread: &Thread) {
        self.now = format!("{thread:?}");
    }

    fn calls(&mut self, calls: &[Call]) {
        calls
            .iter()
            .for_each(|call| self.event(format!("{call:?}")));
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.event(format!("{mark:?}"));
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.wrong.push(format!("{diagnostic:?}"));
    }
}

impl Join for Everything {
    fn join(&mut self, piece: Everything) -> bool {
        self.now.clone_from(&piece.now);
        self.add(piece);
        true
    }
}

/// Decodes it in one piece and in many.
///
/// # Panics
/// If that is not the same.
pub(crate) fn check(source: &dyn Source) {
    let lanes = source.lanes();
    let mut whole = Everything::default();
    if drive(source, &mut whole, &|_| {}).is_err() {
        return;
    }
    let whole = whole.in_order(lanes);
    for piece in PIECES {
        let division = Division { jobs: 2, piece };
        let sinks = drive_pieces(source, division, |_| Everything::default(), &|_| {})
            .expect("what was read once can be read again");
        let mut all = Everything::default();
        sinks.into_iter().for_each(|sink| all.add(sink));
        assert_eq!(all.in_order(lanes), whole, "in pieces of {piece} bytes");
    }
}
