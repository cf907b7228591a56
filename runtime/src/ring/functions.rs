//! The ring file's function table: append-only, so that the names of a dead process's functions
//! can be read without its binary. Written by the shell alone, under its lock; the child of a fork
//! copies it from the list of pieces that the process keeps for it, and needs no lock.
//!
//! Entry, native byte order, padded with zeros to a multiple of 8:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | bytes of the entry, padding included |
//! | 4 | 4 | function id |
//! | 8 | 4 | source line, 0 = unknown |
//! | 12 | 2 | bytes of the name |
//! | 14 | 2 | bytes of the file's path |
//! | 16 | | the name, then the path, UTF-8 |
//!
//! An untimed function's entry is 8 bytes longer: behind the padding of the path it has a u32, bit 0 =
//! untimed, and 4 zeros.

use super::Ring;
use super::layout::{FUNCTIONS_ROOM, FUNCTIONS_STEP};
use crate::primitive::{AtomicPtr, Ordering};

/// Bytes before the name.
const HEAD: usize = 16;

/// One function, as the table keeps it.
pub(crate) struct Entry<'a> {
    pub(crate) id: u32,
    pub(crate) line: u32,
    pub(crate) name: &'a str,
    pub(crate) file: &'a str,
    pub(crate) untimed: bool,
}

/// Functions that were appended at once, encoded; each piece leads to the one before it. Never freed
/// nor changed.
pub(super) struct Piece {
    bytes: Vec<u8>,
    before: *const Piece,
}

/// The last piece; null = none yet.
pub(super) type Pieces = AtomicPtr<Piece>;

impl Ring {
    /// Appends functions; false where the table is full (their names are then missing from a
    /// recovered trace, nothing else). The caller is the only writer.
    pub(crate) fn append_functions<'a>(&self, functions: impl Iterator<Item = Entry<'a>>) -> bool {
        let mut bytes = Vec::new();
        let mut complete = true;
        for function in functions {
            let from = bytes.len();
            encode(&function, &mut bytes);
            complete = complete && self.append(bytes.get(from..).unwrap_or(&[]));
        }
        if !bytes.is_empty() {
            let before = self.pieces.load(Ordering::Relaxed);
            let piece = Box::into_raw(Box::new(Piece { bytes, before }));
            // Release: pairs with the Acquire in `copy_functions`.
            self.pieces.store(piece, Ordering::Release);
        }
        complete
    }

    /// Takes over what another ring's table has. Async-signal-safe.
    pub(super) fn copy_functions(&self, from: &Ring) {
        let pieces = from.pieces.load(Ordering::Acquire);
        self.pieces.store(pieces, Ordering::Release);
        let mut next = pieces.cast_const();
        // SAFETY: null, or a piece, none of which is ever freed.
        while let Some(piece) = unsafe { next.as_ref() } {
            if !self.append(&piece.bytes) {
                return;
            }
            next = piece.before;
        }
    }

    /// Appends whole entries. Async-signal-safe.
    fn append(&self, entries: &[u8]) -> bool {
        let header = self.header();
        let length = header.functions_length.load(Ordering::Relaxed) as usize;
        let end = length + entries.len();
        if !self.grow(length, end) {
            return false;
        }
        // SAFETY: the place is inside the table, has its space, and nobody reads it before the length
        // below says so.
        unsafe {
            let at = self.base.add(self.layout.functions + length);
            core::ptr::copy_nonoverlapping(entries.as_ptr(), at, entries.len());
        }
        // Release: pairs with a reader's Acquire of the length.
        header.functions_length.store(end as u64, Ordering::Release);
        true
    }

    /// Space for the table from `old` to `new` bytes; `create` has given the first step.
    fn grow(&self, old: usize, new: usize) -> bool {
        let given = old.next_multiple_of(FUNCTIONS_STEP).max(FUNCTIONS_STEP);
        if new <= given {
            return true;
        }
        let wanted = new.next_multiple_of(FUNCTIONS_STEP);
        wanted <= FUNCTIONS_ROOM && self.give_space(self.layout.functions + given, wanted - given)
    }
}

fn encode(function: &Entry<'_>, bytes: &mut Vec<u8>) {
    let name = clip(function.name);
    let file = clip(function.file);
    let flags = u64::from(function.untimed);
    let size = (HEAD + name.len() + file.len()).next_multiple_of(8);
    let size = if flags == 0 { size } else { size + 8 };
    bytes.extend_from_slice(&(size as u32).to_ne_bytes());
    bytes.extend_from_slice(&function.id.to_ne_bytes());
    bytes.extend_from_slice(&function.line.to_ne_bytes());
    bytes.extend_from_slice(&(name.len() as u16).to_ne_bytes());
    bytes.extend_from_slice(&(file.len() as u16).to_ne_bytes());
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(file.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    if flags != 0 {
        bytes.extend_from_slice(&flags.to_ne_bytes());
    }
}

/// A length that fits its field; nobody has names of 4 KiB that another could tell apart.
fn clip(text: &str) -> &str {
    let mut end = text.len().min(4096);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_what_the_table_says() {
        let mut bytes = Vec::new();
        let entry = Entry {
            id: 7,
            line: 258,
            name: "a::b",
            file: "x.rs",
            untimed: false,
        };
        encode(&entry, &mut bytes);
        assert_eq!(
            bytes,
            b"\x18\0\0\0\x07\0\0\0\x02\x01\0\0\x04\0\x04\0a::bx.rs"
        );
        encode(
            &Entry {
                id: 1,
                line: 0,
                name: "n",
                file: "",
                untimed: true,
            },
            &mut bytes,
        );
        assert_eq!(
            bytes[24..],
            *b"\x20\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0n\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"
        );
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        let name = "é".repeat(3000);
        assert_eq!(clip(&name).len(), 4096);
        assert_eq!(clip("short"), "short");
    }
}
