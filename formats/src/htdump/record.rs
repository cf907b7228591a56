//! Layout of HTDUMP's records: the header, HawkTracer's own klasses, and a builder that puts fields behind a header.
//! Pure.
//!
//! Records are packed: they have no padding and no size. The byte order is that of the latest endianness
//! record. Source: HawkTracer 0.11's writer, and what its own parser and its Rust parser take. The format's
//! document has the header's fields in another order, which no parser reads.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | klass |
//! | 4 | 8 | timestamp, ns of a monotonic clock |
//! | 12 | 8 | number of the record |
//! | 20 | | fields of the base klasses, outermost first, then those of the klass |
//!
//! | klass | name | fields |
//! | --- | --- | --- |
//! | 0 | `HT_EndiannessInfoEvent` | u8 order: 0 little, 1 big |
//! | 1 | `HT_Event` | none: it is the header |
//! | 2 | `HT_EventKlassInfoEvent` | u32 klass, text name, u8 number of fields |
//! | 3 | `HT_EventKlassFieldInfoEvent` | u32 klass, text type, text name, u64 size in bytes, u8 kind |
//! | 4 | `HT_CallstackBaseEvent` | u64 duration in ns, u32 thread |
//! | 5 | `HT_CallstackIntEvent` | those of 4, then u64 identifier of the label |
//! | 6 | `HT_CallstackStringEvent` | those of 4, then text label |
//! | 7 | `HT_StringMappingEvent` | u64 identifier, text label |
//! | 8 | `HT_SystemInfoEvent` | u8 major, u8 minor, u8 patch: HawkTracer's version |
//!
//! A text is its bytes (UTF-8) and one zero byte. The kinds of fields:
//!
//! | kind | what |
//! | --- | --- |
//! | 1 | a klass, named by the type; the first field of a derived klass is its base, named `base` |
//! | 2 | text; the size says nothing |
//! | 3, 99 | signed integer, unsigned integer |
//! | 4, 5, 6 | float of 4 bytes, float of 8 bytes, pointer |
//!
//! A zero byte would end a text early. Quotation marks, backslashes and control characters would break
//! JSON, because viewers do not escape them. The module `escaped` of the crate has two remedies. `escape`
//! keeps all bytes. `label` is for people, and replaces such characters by similar ones.

use crate::bytes::{ByteOrder, Fields};

/// Bytes of the longest record that is read: an XRay event of 16 MiB, escaped, is shorter.
pub(super) const MAX_RECORD: usize = 64 << 20;

/// Bytes of a header.
pub const HEADER_SIZE: usize = 20;

/// Klass of the record that states the byte order.
pub const ENDIANNESS: u32 = 0;
/// Klass from which all others derive.
pub const EVENT: u32 = 1;
/// Klass of the record that announces a klass.
pub const KLASS: u32 = 2;
/// Klass of the record that describes a field of a klass.
pub const FIELD: u32 = 3;
/// Klass that calls derive from.
pub const CALL_BASE: u32 = 4;
/// Klass of a call with the identifier of a label.
pub const CALL: u32 = 5;
/// Klass of a call with its label.
pub const CALL_TEXT: u32 = 6;
/// Klass of the record that maps an identifier to a label.
pub const MAPPING: u32 = 7;
/// Klass of the record that states HawkTracer's version.
pub const SYSTEM: u32 = 8;

/// Kind of a field that is a klass.
pub const STRUCT: u8 = 1;
/// Kind of a text.
pub const TEXT: u8 = 2;
/// Kind of a signed integer.
pub const SIGNED: u8 = 3;
/// Kind of a float of 4 bytes.
pub const FLOAT: u8 = 4;
/// Kind of a float of 8 bytes.
pub const DOUBLE: u8 = 5;
/// Kind of a pointer.
pub const POINTER: u8 = 6;
/// Kind of an unsigned integer.
pub const UNSIGNED: u8 = 99;

/// The beginning of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Klass of the record.
    pub klass: u32,
    /// Time in ns.
    pub time: u64,
    /// Number of the record in its stream.
    pub number: u64,
}

impl Header {
    /// The header at the front of some bytes; `None` if they end too early.
    #[must_use]
    pub fn decode(bytes: &[u8], order: ByteOrder) -> Option<Header> {
        let mut fields = Fields::new(bytes, order);
        Some(Header {
            klass: fields.u32()?,
            time: fields.u64()?,
            number: fields.u64()?,
        })
    }
}

/// Bytes of an endianness record with time 0 and number 0. Streams begin with it.
#[must_use]
pub fn endianness(order: ByteOrder) -> [u8; HEADER_SIZE + 1] {
    let mut bytes = [0; HEADER_SIZE + 1];
    bytes[HEADER_SIZE] = u8::from(order == ByteOrder::Big);
    bytes
}

/// The byte order of a stream that begins with these bytes; `None` if it is no HTDUMP.
///
/// A stream begins with an endianness record. Some streams begin with the description of a klass
/// instead; its number shows the order.
#[must_use]
pub fn order(head: &[u8]) -> Option<ByteOrder> {
    let next = |order| Fields::new(head.get(HEADER_SIZE + 1..)?, order).u32();
    let order = match head.get(HEADER_SIZE) {
        _ if head.starts_with(&KLASS.to_le_bytes()) && names_klass(head) => {
            return Some(ByteOrder::Little);
        }
        _ if head.starts_with(&KLASS.to_be_bytes()) && names_klass(head) => {
            return Some(ByteOrder::Big);
        }
        Some(0) => ByteOrder::Little,
        Some(1) => ByteOrder::Big,
        _ => return None,
    };
    let first = head.starts_with(&[0; HEADER_SIZE]);
    let fits = match next(order) {
        // The file ends there, or soon behind.
        None => first && head.len() < HEADER_SIZE + 5,
        Some(KLASS) => head.starts_with(&[0; 4]),
        Some(klass) => first && klass != 0,
    };
    fits.then_some(order)
}

/// Whether a record of klass 2 describes one of HawkTracer's klasses.
fn names_klass(head: &[u8]) -> bool {
    head.get(HEADER_SIZE + 4..)
        .is_some_and(|name| name.starts_with(b"HT_"))
}

/// Appends records to some bytes.
pub(super) struct Encoder {
    pub(super) order: ByteOrder,
    /// Number of the record before.
    pub(super) number: u64,
}

impl Encoder {
    /// Begins a record.
    pub(super) fn begin<'a>(&mut self, out: &'a mut Vec<u8>, klass: u32, time: u64) -> Builder<'a> {
        self.number += 1;
        let header = Header {
            klass,
            time,
            number: self.number,
        };
        Builder::new(out, self.order, header)
    }
}

/// Puts the fields of one record behind its header. Its methods are not inlined, because most records are calls of
/// the program, and these are encoded by another function.
pub struct Builder<'a> {
    out: &'a mut Vec<u8>,
    order: ByteOrder,
}

impl<'a> Builder<'a> {
    /// Begins a record.
    pub fn new(out: &'a mut Vec<u8>, order: ByteOrder, header: Header) -> Builder<'a> {
        Builder { out, order }
            .u32(header.klass)
            .u64(header.time)
            .u64(header.number)
    }

    /// One byte.
    #[inline(never)]
    pub fn u8(self, value: u8) -> Builder<'a> {
        self.out.push(value);
        self
    }

    /// Four bytes.
    #[inline(never)]
    pub fn u32(self, value: u32) -> Builder<'a> {
        let bytes = match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        };
        self.out.extend_from_slice(&bytes);
        self
    }

    /// Eight bytes.
    #[inline(never)]
    pub fn u64(self, value: u64) -> Builder<'a> {
        let bytes = match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        };
        self.out.extend_from_slice(&bytes);
        self
    }

    /// A text. It must not contain a zero byte.
    #[inline(never)]
    pub fn text(self, text: &str) -> Builder<'a> {
        debug_assert!(!text.contains('\0'), "a text ends at its first zero byte");
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(0);
        self
    }
}
