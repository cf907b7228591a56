//! The listing: one line for each packet, and one for all bytes between two packets. The listing is for people, so it
//! shows everything that a packet has.

use std::fmt::Write as _;

use super::decoder_state::DecoderState;
use super::details::{Attributes, describe};
use super::facts::{self, OwnEvent};
use super::index::Index;
use super::record::{Event, Metadata};
use super::scan::{self, Unit, Walker};
use crate::bytes::ReadAt;
use crate::edges::ItemContent;
use crate::error::Error;
use crate::model::Ticks;
use crate::note_words::name_of;
use crate::source::{Listing, Record, Visit};

/// The most values of an array that are shown.
const MAX_SHOWN_VALUES: usize = 64;
/// A longer line shows no further attributes.
const MAX_LINE: usize = 64 * 1024;

/// Visits every packet of the file.
pub(super) fn records(bytes: &dyn ReadAt, index: &Index, visit: Visit<'_>) -> Result<(), Error> {
    let mut walker = Walker::new(bytes);
    let mut state = DecoderState::new(index.epochs);
    let mut notes = Attributes::new(bytes, index);
    Listing::run(visit, |mut listing| {
        while let Some(found) = walker.next()? {
            let step = state.unit(&found);
            let detail = &mut listing.detail;
            let (mut thread, mut time) = (None, None);
            let note = match &found.unit {
                Unit::Event(event) if facts::own(event) == Some(OwnEvent::Note) => {
                    notes.note(found.offset)?
                }
                _ => None,
            };
            let function = match step.item.map(|(_, item)| item.what) {
                Some(ItemContent::Span { function, .. }) => Some(function),
                _ => note.as_ref().and_then(|(kind, body)| name_of(*kind, body)),
            };
            let kind = match &found.unit {
                Unit::Event(event) => {
                    time = Some(Ticks(state.ticks(event.start)));
                    let threads = &index.info.threads;
                    thread = step
                        .item
                        .and_then(|(lane, _)| threads.get(lane))
                        .map(|thread| thread.id);
                    event_line(detail, event, found.size);
                    "Event"
                }
                Unit::Metadata(metadata) => {
                    metadata_line(detail, metadata);
                    "Metadata"
                }
                Unit::Damage(what) => {
                    detail.push_str(what);
                    "Skipped"
                }
            };
            listing.emit(Record {
                offset: found.offset,
                size: found.size,
                thread,
                time,
                function,
                note: note.as_ref().map(|(kind, body)| (*kind, &body[..])),
                kind,
                ..Record::default()
            })?;
        }
        Ok(())
    })
}

fn metadata_line(detail: &mut String, metadata: &Metadata<'_>) {
    let name = facts::lossy(metadata.name);
    let _ = match metadata.epoch() {
        Some(epoch) => write!(detail, "{name}={epoch} ns since 1970"),
        None => {
            let shown = metadata
                .value
                .get(..MAX_SHOWN_VALUES)
                .unwrap_or(metadata.value);
            write!(detail, "{name:?} \"{}\"", shown.escape_ascii())
        }
    };
}

fn event_line(detail: &mut String, event: &Event<'_>, size: u64) {
    let Event {
        stream,
        counter,
        substream,
        start,
        end,
        ..
    } = event;
    let _ = write!(
        detail,
        "stream={stream} counter={counter} substream={substream} start={start} ns end={end} ns {:?}",
        facts::lossy(event.description)
    );
    for (at, attribute) in facts::attributes(event).enumerate() {
        if detail.len() > MAX_LINE {
            let more = facts::attributes(event).count() - at;
            let _ = write!(detail, " … {more} more attributes");
            break;
        }
        describe(detail, &attribute, MAX_SHOWN_VALUES);
    }
    if let Some(what) = scan::trouble(event, size) {
        let _ = write!(detail, " ({what})");
    }
}
