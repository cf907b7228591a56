//! The listing: one line for each unit on the disk. First the metadata and its packets; then, of each
//! stream file, the packets' heads, events and paddings. Offsets are those in the file that the line names.
//! Must never hide a byte: skipped bytes have lines too.

use std::ops::ControlFlow;

use super::index::{Index, Stream};
use super::stream::{Reader, Step, WINDOW};
use crate::error::Error;
use crate::model::{ThreadId, Ticks};
use crate::source::Record;

type Visit<'a> = &'a mut dyn FnMut(&Record<'_>) -> ControlFlow<()>;

/// Visits every unit of the folder.
pub(super) fn records(index: &Index, visit: Visit<'_>) -> Result<(), Error> {
    if metadata(index, visit).is_break() {
        return Ok(());
    }
    for file in &index.files {
        if stream(index, file, visit)?.is_break() {
            break;
        }
    }
    Ok(())
}

fn metadata(index: &Index, visit: Visit<'_>) -> ControlFlow<()> {
    let text = &index.metadata;
    let lines = text.text.lines().count();
    let mut line = |offset, size, kind, detail: &str| {
        visit(&Record {
            offset,
            size,
            thread: None,
            time: None,
            function: None,
            kind,
            detail,
        })
    };
    if text.packets.is_empty() {
        let detail = format!("file=metadata {lines} lines");
        return line(0, text.size, "Metadata", &detail);
    }
    for (_, _, start, end) in &text.packets {
        line(*start, end - start, "MetadataPacket", "file=metadata")?;
    }
    ControlFlow::Continue(())
}

fn stream(index: &Index, file: &Stream, visit: Visit<'_>) -> Result<ControlFlow<()>, Error> {
    let schema = &index.schema;
    let bytes = file.open()?;
    let mut reader = Reader::new(schema, &bytes, WINDOW);
    reader.describe = true;
    let thread = file.thread.and_then(|place| index.info.threads.get(place));
    let thread = thread.map(|thread| thread.id);
    let mut line = |offset, size, time, thread, kind: &str, detail: &str| {
        visit(&Record {
            offset,
            size,
            thread,
            time,
            function: None,
            kind,
            detail,
        })
    };
    loop {
        let step = reader.step()?;
        let flow = match &step {
            Step::End => return Ok(ControlFlow::Continue(())),
            Step::Packet(packet) => {
                let detail = format!("file={} {}", file.name, reader.text);
                let size = packet.head / 8;
                line(
                    packet.offset,
                    size,
                    packet.begin.map(Ticks),
                    thread,
                    "Packet",
                    &detail,
                )
            }
            Step::Event(event) => {
                let stream = schema.streams.get(event.stream);
                let class = stream.and_then(|stream| stream.events.get(event.class));
                let slots = stream.map(|stream| stream.context).unwrap_or_default();
                let own = class.map(|class| class.thread).unwrap_or_default();
                let slot = own.thread.or(slots.thread).filter(|_| !schema.ours);
                let id = slot.map(|slot| ThreadId(reader.values.number(slot)));
                let name = class.map_or("?", |class| &class.name);
                let time = Some(Ticks(event.time));
                line(
                    event.offset,
                    event.size,
                    time,
                    id.or(thread),
                    name,
                    &reader.text,
                )
            }
            Step::Padding { offset, size } => line(*offset, *size, None, thread, "Padding", ""),
            // Where bytes are missing there is none to list.
            Step::Damage { size: 0, .. } => ControlFlow::Continue(()),
            Step::Damage { at, size, .. } => {
                let detail = format!("file={} {}", file.name, at.what);
                line(at.offset, *size, None, thread, "Skipped", &detail)
            }
        };
        if flow.is_break() {
            return Ok(flow);
        }
    }
}
