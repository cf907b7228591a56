//! The listing: one line for each unit on the disk. First the metadata and its packets; then, of each stream file, the
//! packets' heads, events and paddings. Offsets are those in the file that the line names.

use std::fmt::Write as _;

use super::index::{Index, Stream};
use super::stream::{Reader, Step, WINDOW};
use crate::error::Error;
use crate::model::{ThreadId, Ticks};
use crate::source::{Listing, Record, Stop, Visit};

/// Visits every unit of the folder.
pub(super) fn records(index: &Index, visit: Visit<'_>) -> Result<(), Error> {
    Listing::run(visit, |mut listing| {
        metadata(index, &mut listing)?;
        let mut files = index.files.iter();
        files.try_for_each(|file| stream(index, file, &mut listing))
    })
}

fn metadata(index: &Index, listing: &mut Listing<'_>) -> Result<(), Stop> {
    let text = &index.metadata;
    if text.packets.is_empty() {
        let lines = text.text.lines().count();
        let _ = write!(listing.detail, "file=metadata {lines} lines");
        return listing.emit(Record {
            size: text.size,
            kind: "Metadata",
            ..Record::default()
        });
    }
    for (_, _, start, end) in &text.packets {
        listing.detail.push_str("file=metadata");
        listing.emit(Record {
            offset: *start,
            size: end - start,
            kind: "MetadataPacket",
            ..Record::default()
        })?;
    }
    Ok(())
}

fn stream(index: &Index, file: &Stream, listing: &mut Listing<'_>) -> Result<(), Stop> {
    let schema = &index.schema;
    let bytes = file.open()?;
    let mut reader = Reader::new(schema, &bytes, WINDOW);
    reader.describe = true;
    let thread = file.thread.and_then(|place| index.info.threads.get(place));
    let thread = thread.map(|thread| thread.id);
    loop {
        let step = reader.step()?;
        let detail = &mut listing.detail;
        let record = match &step {
            Step::End => return Ok(()),
            Step::Packet(packet) => {
                let _ = write!(detail, "file={} {}", file.name, reader.text);
                Record {
                    offset: packet.offset,
                    size: packet.head / 8,
                    time: packet.begin.map(Ticks),
                    thread,
                    kind: "Packet",
                    ..Record::default()
                }
            }
            Step::Event(event) => {
                let stream = schema.streams.get(event.stream);
                let class = stream.and_then(|stream| stream.events.get(event.class));
                let slots = stream.map(|stream| stream.context).unwrap_or_default();
                let own = class.map(|class| class.thread).unwrap_or_default();
                let slot = own.thread.or(slots.thread).filter(|_| !schema.ours);
                let id = slot.map(|slot| ThreadId(reader.values.number(slot)));
                detail.push_str(&reader.text);
                Record {
                    offset: event.offset,
                    size: event.size,
                    time: Some(Ticks(event.time)),
                    thread: id.or(thread),
                    kind: class.map_or("?", |class| &class.name),
                    ..Record::default()
                }
            }
            Step::Padding { offset, size } => Record {
                offset: *offset,
                size: *size,
                thread,
                kind: "Padding",
                ..Record::default()
            },
            // Missing bytes have no line.
            Step::Damage { size: 0, .. } => continue,
            Step::Damage { at, size, .. } => {
                let _ = write!(detail, "file={} {}", file.name, at.what);
                Record {
                    offset: at.offset,
                    size: *size,
                    thread,
                    kind: "Skipped",
                    ..Record::default()
                }
            }
        };
        listing.emit(record)?;
    }
}
