//! The listing: one line for each record, in the order of the file. The listing is for people, so it names fields and
//! functions.

use std::fmt::Write as _;

use super::index::{Index, WINDOW};
use super::items;
use super::scan::{Event, RecordPass, Step};
use super::schema::printable_name;
use crate::bytes::ReadAt;
use crate::error::Error;
use crate::model::{FunctionId, Ticks};
use crate::note_words::name_of;
use crate::notes::{Note, NoteKind};
use crate::source::{Listing, Record, Visit};
use crate::text;

/// The most bytes of a record's fields that are shown.
const MAX_SHOWN_BYTES: usize = 400;

/// Visits every record of the file.
pub(super) fn records(file: &dyn ReadAt, index: &Index, visit: Visit<'_>) -> Result<(), Error> {
    let mut pass = RecordPass::new(file, &index.tables, WINDOW);
    let mut threads = index.threads.copy_for_pass();
    Listing::run(visit, |mut listing| {
        while let Some(step) = pass.next()? {
            match step {
                Step::Gap(from, to) => {
                    let _ = write!(listing.detail, "bytes={} that are no records", to - from);
                    listing.emit(Record {
                        offset: from,
                        size: to - from,
                        kind: "Skipped",
                        ..Record::default()
                    })?;
                }
                Step::Event(event) => {
                    let detail = &mut listing.detail;
                    let (number, mut function) = fields(&event, index, detail);
                    let note = items::note(&event, &index.ties);
                    if let Some((kind, body)) = &note {
                        function = words(*kind, body, index, detail);
                    }
                    let place = number.and_then(|number| threads.find(number));
                    let thread = place.and_then(|at| index.info.threads.get(at));
                    listing.emit(Record {
                        offset: event.offset,
                        size: event.size(),
                        thread: thread.map(|thread| thread.id),
                        time: number.map(|_| Ticks(event.header.time)),
                        function,
                        note: note.as_ref().map(|(kind, body)| (*kind, &body[..])),
                        kind: &printable_name(&event.layout.name),
                        ..Record::default()
                    })?;
                }
            }
        }
        Ok(())
    })
}

/// Describes a note. Returns its name, by which filters choose it.
fn words(kind: NoteKind, body: &[u8], index: &Index, detail: &mut String) -> Option<FunctionId> {
    let note = Note::decode(kind, body)?;
    let words = note.words(&index.info);
    detail.clear();
    let _ = write!(detail, "fdr {}: {words}", kind.name());
    name_of(kind, body)
}

/// Describes a record's fields. Returns the number of its thread and its function, if it has them.
fn fields(
    event: &Event<'_>,
    index: &Index,
    detail: &mut String,
) -> (Option<u64>, Option<FunctionId>) {
    let _ = write!(detail, "id={}", event.header.number);
    items::describe(event, detail);
    if detail.len() > MAX_SHOWN_BYTES {
        detail.truncate(text::cut(detail, MAX_SHOWN_BYTES).len());
        detail.push('…');
    }
    let mut called = None;
    let item = items::item(event, |naming| {
        let function = index.ties.function(event.offset, naming);
        called = Some(function);
        function
    });
    if let Some(id) = called {
        let name = index.info.function(id).map_or("?", |found| &found.name);
        let _ = write!(detail, " function={id} {}", printable_name(name));
    }
    (item.map(|(number, _)| number), called)
}
