//! The function table of the ring file. It is append-only, so the names of a dead process's functions can be
//! read without its binary. Only the shell appends entries, under its lock. The child of a fork copies them
//! from a list of table parts that the process keeps for it, and takes no lock. An entry must never change.
//!
//! An entry has native byte order and is padded with zeros to a multiple of 8:
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
//! The entry of an untimed function, of an event and of a name is 8 bytes longer. Behind the padding of the path it has
//! a u32, and 4 zeros. Of the u32 bit 0 = untimed, bits 1 and 2 = what has no calls: 1 an event, 2 a name.

use super::Ring;
use super::layout::FUNCTIONS_STEP;
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
    /// A `What`: 0 = it has calls.
    pub(crate) kind: u8,
}

/// Encoded functions that were appended together. Each part points to the part before it. A part is never freed
/// or changed.
pub(super) struct TablePart {
    bytes: Vec<u8>,
    before: *const TablePart,
}

/// The last part. Null = no part yet.
pub(super) type TableParts = AtomicPtr<TablePart>;

impl Ring {
    /// Appends functions. False if the table is full. Then a recovered trace lacks their names and nothing
    /// else. Only one thread may call this at a time.
    pub(crate) fn append_functions<'a>(&self, functions: impl Iterator<Item = Entry<'a>>) -> bool {
        let mut bytes = Vec::new();
        let mut complete = true;
        for function in functions {
            let from = bytes.len();
            encode(&function, &mut bytes);
            complete = complete && self.append(bytes.get(from..).unwrap_or(&[]));
        }
        if !bytes.is_empty() {
            let before = self.table_parts.load(Ordering::Relaxed);
            let part = Box::into_raw(Box::new(TablePart { bytes, before }));
            // Release: pairs with the Acquire in `copy_functions`.
            self.table_parts.store(part, Ordering::Release);
        }
        complete
    }

    /// Copies the table of another ring. Async-signal-safe.
    pub(super) fn copy_functions(&self, from: &Ring) {
        let table_parts = from.table_parts.load(Ordering::Acquire);
        self.table_parts.store(table_parts, Ordering::Release);
        let mut next = table_parts.cast_const();
        // SAFETY: the pointer is null or points to a part, which is never freed.
        while let Some(part) = unsafe { next.as_ref() } {
            if !self.append(&part.bytes) {
                return;
            }
            next = part.before;
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
        // SAFETY: the place is inside the table and has its space. No reader reads it before the length below
        // includes it.
        unsafe {
            let at = self.base.add(self.layout.functions + length);
            core::ptr::copy_nonoverlapping(entries.as_ptr(), at, entries.len());
        }
        // Release: pairs with a reader's Acquire of the length.
        header.functions_length.store(end as u64, Ordering::Release);
        true
    }

    /// Gives the table space from `old` to `new` bytes. `create` has given the first step.
    fn grow(&self, old: usize, new: usize) -> bool {
        let given = old.next_multiple_of(FUNCTIONS_STEP).max(FUNCTIONS_STEP);
        if new <= given {
            return true;
        }
        let wanted = new.next_multiple_of(FUNCTIONS_STEP);
        wanted <= self.layout.functions_room()
            && self.give_space(self.layout.functions + given, wanted - given)
    }
}

fn encode(function: &Entry<'_>, bytes: &mut Vec<u8>) {
    let name = clip(function.name);
    let file = clip(function.file);
    let flags = u64::from(function.untimed) | u64::from(function.kind) << 1;
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

/// A part of the text that fits the field. Names that differ only behind 4 KiB do not occur.
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
            kind: 0,
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
                kind: 2,
            },
            &mut bytes,
        );
        assert_eq!(
            bytes[24..],
            *b"\x20\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0n\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0"
        );
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        let name = "é".repeat(3000);
        assert_eq!(clip(&name).len(), 4096);
        assert_eq!(clip("short"), "short");
    }
}
