//! The writer's spool. It holds back the last entry, because a note with the arguments of that call may follow. If it
//! follows, the entry says that it has arguments, and an argument record follows it for each argument that is a number.
//! So XRay's own tools show these numbers.

use std::io;

use super::record::{Action, FUNCTION_SIZE, Record, encode_metadata};
use super::thread_state::LAYOUT;
use crate::model::NoteKind;
use crate::notes::{ERROR, FieldValue, Note};
use crate::spool::Spool;

/// An entry without arguments that is in no spool yet.
#[derive(Clone, Copy, Debug)]
struct SpooledEntry {
    strand: usize,
    bytes: [u8; FUNCTION_SIZE],
}

/// See above.
#[derive(Debug, Default)]
pub(super) struct EntrySpool {
    spool: Spool,
    held: Option<SpooledEntry>,
}

impl EntrySpool {
    /// A new strand.
    pub(super) fn strand(&mut self) -> usize {
        self.spool.strand()
    }

    /// Appends some bytes to a strand.
    ///
    /// # Errors
    /// If the temporary file can't be written.
    pub(super) fn push(&mut self, strand: usize, bytes: &[u8]) -> io::Result<()> {
        if let Some(held) = self.held.take() {
            self.spool.push(held.strand, &held.bytes)?;
        }
        self.spool.push(strand, bytes)
    }

    /// Appends records of calls.
    ///
    /// # Errors
    /// If the temporary file can't be written.
    pub(super) fn calls(&mut self, strand: usize, calls: &[[u8; FUNCTION_SIZE]]) -> io::Result<()> {
        let Some((last, before)) = calls.split_last() else {
            return Ok(());
        };
        let is_entry = last[0] & 0xf == (Action::Entry as u8) << 1;
        if !is_entry || cfg!(not(feature = "read")) {
            return self.push(strand, calls.as_flattened());
        }
        self.push(strand, before.as_flattened())?;
        let bytes = *last;
        self.held = Some(SpooledEntry { strand, bytes });
        Ok(())
    }

    /// Takes a note of a strand. If it has arguments of the last entry, those that are numbers become argument records
    /// behind that entry.
    ///
    /// # Errors
    /// If the temporary file can't be written.
    pub(super) fn arguments(
        &mut self,
        strand: Option<usize>,
        kind: NoteKind,
        body: &[u8],
    ) -> io::Result<()> {
        let held = self.held.filter(|held| Some(held.strand) == strand);
        let numbers = held.map_or(Vec::new(), |held| {
            let [one, two, three, four, ..] = held.bytes;
            numbers(u32::from_le_bytes([one, two, three, four]) >> 4, kind, body)
        });
        let Some(held) = self.held.as_mut().filter(|_| !numbers.is_empty()) else {
            return Ok(());
        };
        held.bytes[0] |= (Action::EntryArgs as u8) << 1;
        let strand = held.strand;
        let record = |value| encode_metadata(&Record::CallArgument { value }, LAYOUT);
        let records: Vec<u8> = numbers.into_iter().flat_map(record).collect();
        self.push(strand, &records)
    }

    /// Gives the bytes of a strand.
    ///
    /// # Errors
    /// If the temporary file can't be read, and those of `each`.
    pub(super) fn each(
        &mut self,
        strand: usize,
        each: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Some(held) = self.held.take() {
            self.spool.push(held.strand, &held.bytes)?;
        }
        self.spool.each(strand, each)
    }
}

/// The numbers among the arguments of a call of that function, in their order.
fn numbers(of: u32, kind: NoteKind, body: &[u8]) -> Vec<u64> {
    let fields = match Note::decode(kind, body) {
        Some(Note::Arguments { function, fields }) if function == of => fields,
        _ => return Vec::new(),
    };
    let arguments = fields.iter().filter(|field| field.place < ERROR);
    let number = |value| match value {
        FieldValue::Unsigned(number) | FieldValue::Address(number) => Some(number),
        FieldValue::Signed(number) => Some(number as u64),
        FieldValue::Truth(truth) => Some(truth.into()),
        _ => None,
    };
    arguments.filter_map(|field| number(field.value)).collect()
}
