//! The listing: one line for each unit of the file, in the order of the file. It must never hide a byte.
//! Damaged bytes and bytes after the last entry have lines too.

use std::fmt::Write as _;

use super::facts;
use super::index::{Index, when};
use super::names;
use super::notes;
use super::record::{Entry, HEAD_SIZE};
use super::scan::{self, Flow, Frame};
use super::tables::{self, Number};
use crate::bytes::ReadAt;
use crate::error::Error;
use crate::model::FunctionId;
use crate::notes::Note;
use crate::source::{Listing, Record, Stop, Visit};

/// The most children of an entry that are listed by number.
const CHILDREN: u64 = 16;

/// Visits every unit of the file.
pub(super) fn records(bytes: &dyn ReadAt, index: &Index, visit: Visit<'_>) -> Result<(), Error> {
    Listing::run(visit, |listing| {
        let mut list = List(listing);
        let layout = &index.layout;
        let _ = write!(list.0.detail, "{}", layout.kind);
        list.line(0, HEAD_SIZE as u64, "Head")?;
        let head = HEAD_SIZE as u64;
        if layout.tables.is_some() {
            list.tables(bytes)?;
        } else if layout.first > head {
            list.0
                .detail
                .push_str("tables of offsets and children, damaged");
            list.line(head, layout.first - head, "Skipped")?;
        }
        let mut listed = Ok(());
        scan::each(bytes, layout, &mut |frame: &Frame<'_>| {
            listed = list.frame(frame);
            if listed.is_err() {
                Flow::Enough
            } else {
                Flow::On
            }
        })?;
        listed
    })
}

struct List<'a>(Listing<'a>);

impl List<'_> {
    fn line(&mut self, offset: u64, size: u64, kind: &str) -> Result<(), Stop> {
        self.0.emit(Record {
            offset,
            size,
            kind,
            ..Record::default()
        })
    }

    fn tables(&mut self, bytes: &dyn ReadAt) -> Result<(), Stop> {
        let (mut entry, mut start) = (0u64, None);
        let mut children = (0, 0);
        let (mut end, mut listed) = (0, Ok(()));
        let walked = tables::walk(bytes, &mut |at, number| {
            let next = match number {
                Number::Child(child) => {
                    children.1 += 1;
                    if children.1 <= CHILDREN {
                        let _ = write!(self.0.detail, " {child}");
                    } else if children.1 == children.0 {
                        let _ = write!(self.0.detail, " and {} more", children.0 - CHILDREN);
                    }
                    return true;
                }
                next => next,
            };
            if let Some((at_kind, kind)) = start.take() {
                listed = self.line(at_kind, at - at_kind, kind);
            }
            let _ = match next {
                Number::Offsets(count) => write!(self.0.detail, "{count} offsets"),
                Number::Offset(offset) => {
                    entry += 1;
                    write!(
                        self.0.detail,
                        "entry {}: byte {offset} after the pool",
                        entry - 1
                    )
                }
                Number::Pool(lists) => {
                    entry = 0;
                    write!(self.0.detail, "children of {lists} entries")
                }
                Number::Children(count) => {
                    (entry, children) = (entry + 1, (count, 0));
                    write!(self.0.detail, "entry {}: {count} children:", entry - 1)
                }
                Number::Child(_) => Ok(()),
            };
            start = Some((at, kind(next)));
            listed.is_ok()
        })?;
        listed?;
        if let Ok(place) = walked {
            end = place;
        }
        if let Some((at, kind)) = start {
            self.line(at, end.saturating_sub(at), kind)?;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Stop> {
        let Some(decoded) = &frame.content else {
            if let Some(problem) = &frame.problem {
                self.0.detail.push_str(problem);
            }
            return self.line(frame.offset, frame.size, "Skipped");
        };
        let entry = &decoded.entry;
        let _ = write!(self.0.detail, "#{} in #{} ", frame.index, entry.parent);
        names::short(&mut self.0.detail, entry.metadata.name);
        if let Some(message) = entry.message {
            self.0.detail.push_str(" message=\"");
            names::short(&mut self.0.detail, message);
            self.0.detail.push('"');
        }
        names::attributes(&mut self.0.detail, entry);
        self.place(entry);
        let kind = match frame.index {
            0 => "Root",
            _ if entry.metadata.target == facts::TARGET => "Fact",
            _ => "Entry",
        };
        let (thread, time) = when(entry).unzip();
        let note = notes::note(entry);
        let named = note
            .as_ref()
            .and_then(|(kind, body)| Note::decode(*kind, body));
        let function = named.map(|note| FunctionId(note.name()));
        self.0.emit(Record {
            offset: frame.offset,
            size: frame.size,
            thread,
            time,
            kind,
            function: function.filter(|function| function.0 > 0),
            note: note.as_ref().map(|(kind, body)| (*kind, &body[..])),
            ..Record::default()
        })
    }

    /// Level, target, module and place in the source.
    fn place(&mut self, entry: &Entry<'_>) {
        let metadata = &entry.metadata;
        let _ = write!(self.0.detail, " level={:?} target=", metadata.level);
        names::short(&mut self.0.detail, metadata.target);
        if let Some(module) = metadata
            .module_path
            .filter(|&module| module != metadata.target)
        {
            self.0.detail.push_str(" module=");
            names::short(&mut self.0.detail, module);
        }
        if let Some(file) = metadata.file {
            self.0.detail.push_str(" file=");
            names::short(&mut self.0.detail, file);
        }
        if let Some(line) = metadata.line {
            let _ = write!(self.0.detail, " line={line}");
        }
    }
}

fn kind(number: Number) -> &'static str {
    match number {
        Number::Offsets(_) => "Offsets",
        Number::Offset(_) => "Offset",
        Number::Pool(_) => "Pool",
        Number::Children(_) | Number::Child(_) => "Children",
    }
}
