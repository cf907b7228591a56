//! The listing: one line for each unit of the file, in the order of the file. Damaged bytes and bytes after the last
//! entry have lines too.

use std::fmt::Write as _;

use super::facts;
use super::index::{Index, when};
use super::names;
use super::notes;
use super::record::{Entry, HEAD_SIZE};
use super::scan::{self, Flow, Frame};
use super::tables::Tables;
use crate::bytes::ReadAt;
use crate::error::Error;
use crate::note_words::name_of;
use crate::source::{Listing, Record, Stop, Visit};

/// Visits every unit of the file.
pub(super) fn records(bytes: &dyn ReadAt, index: &Index, visit: Visit<'_>) -> Result<(), Error> {
    Listing::run(visit, |listing| {
        let mut list = List(listing);
        let layout = &index.layout;
        let _ = write!(list.0.detail, "{}", layout.kind);
        list.line(0, HEAD_SIZE as u64, "Head")?;
        let head = HEAD_SIZE as u64;
        if let Some(tables) = &layout.tables {
            list.tables(tables)?;
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

    fn tables(&mut self, tables: &Tables) -> Result<(), Stop> {
        let head = HEAD_SIZE as u64;
        let _ = write!(self.0.detail, "{} offsets", tables.count);
        self.line(head, tables.pool - head, "Offsets")?;
        let _ = write!(self.0.detail, "children of {} entries", tables.count);
        self.line(tables.pool, tables.entries - tables.pool, "Pool")
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
        self.0.emit(Record {
            offset: frame.offset,
            size: frame.size,
            thread,
            time,
            kind,
            function: note.as_ref().and_then(|(kind, body)| name_of(*kind, body)),
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
