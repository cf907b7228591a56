//! The listing: one line for each table, and for each unit of history.bin, in the order of the file. The listing is for
//! people, so it names attributes.

use std::fmt::Write as _;
use std::path::Path;

use super::index::Index;
use super::names;
use super::record::{Header, Interval, Value};
use super::scan::Scanner;
use super::tree::Role;
use super::{FILES, META};
use crate::bytes::ReadAt;
use crate::error::Error;
use crate::model::{ThreadId, Ticks};
use crate::source::{Listing, Record, Stop, Visit};

/// The most characters of a string that are shown.
const MAX_SHOWN_CHARS: usize = 64;

/// Visits the tables, then history.bin. Each offset is within its file.
pub(super) fn records(
    folder: &Path,
    bytes: &dyn ReadAt,
    header: &Header,
    index: &Index,
    visit: Visit<'_>,
) -> Result<(), Error> {
    Listing::run(visit, |listing| {
        let mut lister = Lister { index, listing };
        lister.all(folder, bytes, header)
    })
}

struct Lister<'a> {
    index: &'a Index,
    listing: Listing<'a>,
}

impl Lister<'_> {
    fn all(&mut self, folder: &Path, bytes: &dyn ReadAt, header: &Header) -> Result<(), Stop> {
        let tables = FILES[..3].iter().map(|(_, name)| *name);
        for name in tables.chain([META]) {
            if let Ok(file) = std::fs::metadata(folder.join(name)) {
                self.listing.detail.push_str(name);
                self.emit(0, file.len(), "Table", None)?;
            }
        }
        self.header(header)?;
        let bounds = self.index.bounds;
        let mut scanner = Scanner::new(bytes, &self.index.tree.kinds, bounds);
        while let Some(piece) = scanner.next()? {
            match piece.interval {
                Some(interval) => self.interval(piece.offset, piece.size, &interval)?,
                None => {
                    self.listing
                        .detail
                        .push_str(piece.fault.as_deref().unwrap_or_default());
                    self.emit(piece.offset, piece.size, "Skipped", None)?;
                }
            }
        }
        let place = self.index.strings;
        self.gap(scanner.offset(), place.from)?;
        let mut stop = Ok(());
        names::each(bytes, place, &mut |found| {
            let _ = write!(self.listing.detail, "{} ", found.number);
            let shown = found
                .text
                .char_indices()
                .nth(MAX_SHOWN_CHARS)
                .map_or(found.text, |(at, _)| &found.text[..at]);
            let more = if shown.len() < found.text.len() {
                "…"
            } else {
                ""
            };
            let _ = write!(self.listing.detail, "{shown:?}{more}");
            stop = self.emit(found.offset, found.size, "String", None);
            stop.is_ok()
        })?;
        stop?;
        self.gap(place.to, bytes.size())
    }

    fn header(&mut self, header: &Header) -> Result<(), Stop> {
        let from = self.index.bounds.from;
        let Header {
            start,
            end,
            intervals,
            keys,
            strings,
            ..
        } = header;
        let _ = write!(
            self.listing.detail,
            "version {}.{}, {start} to {end} ns, {intervals} intervals, {keys} keys, {strings} strings",
            header.major, header.minor
        );
        self.emit(0, from, "Header", None)
    }

    /// Bytes that belong to no record.
    fn gap(&mut self, from: u64, to: u64) -> Result<(), Stop> {
        if from >= to {
            return Ok(());
        }
        let _ = write!(
            self.listing.detail,
            "{} bytes that are no interval and no string",
            to - from
        );
        self.emit(from, to - from, "Skipped", None)
    }

    fn interval(&mut self, offset: u64, size: u64, interval: &Interval) -> Result<(), Stop> {
        let Interval {
            start,
            end,
            key,
            value,
        } = *interval;
        let path = self.index.tree.path(key).join("/");
        let _ = write!(self.listing.detail, "key={key} {path} to {end} ns: ");
        let _ = match value {
            Value::Null => write!(self.listing.detail, "null"),
            Value::Int(value) => write!(self.listing.detail, "{value}"),
            Value::Bool(value) => write!(self.listing.detail, "{value}"),
            Value::Double(value) => write!(self.listing.detail, "{value:?}"),
            Value::Text(number) => {
                let function = self
                    .index
                    .function_of
                    .get(number as usize)
                    .copied()
                    .flatten();
                let function = function.and_then(|id| self.index.info.function(id));
                let name = function.map_or("", |function| &function.name);
                write!(self.listing.detail, "string {number} {name}")
            }
        };
        let time = u64::try_from(start).ok().map(Ticks);
        self.emit(offset, size, "Interval", time.zip(Some(key)))
    }

    fn emit(
        &mut self,
        offset: u64,
        size: u64,
        kind: &str,
        place: Option<(Ticks, u32)>,
    ) -> Result<(), Stop> {
        let role = place.and_then(|(_, key)| self.index.tree.roles.get(key as usize));
        let thread = match role {
            Some(
                Role::Depth(thread)
                | Role::Level(thread, _)
                | Role::Thread(thread)
                | Role::RunQueue(thread),
            ) => self
                .index
                .tree
                .threads
                .get(*thread as usize)
                .map(|&id| ThreadId(id)),
            _ => None,
        };
        self.listing.emit(Record {
            offset,
            size,
            thread,
            time: place.map(|(time, _)| time),
            kind,
            ..Record::default()
        })
    }
}
