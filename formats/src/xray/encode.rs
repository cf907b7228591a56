//! Encodes the records that `record` has the layout of. Pure. Must never leave a reserved byte other than
//! zero.

use super::record::{
    Action, FUNCTION_LIMIT, FUNCTION_SIZE, HEADER_SIZE, Header, Layout, METADATA_SIZE, Record, When,
};
use crate::bytes::ByteOrder;

/// Encodes a function record.
#[must_use]
pub fn encode_function(
    id: u32,
    action: Action,
    delta: u32,
    order: ByteOrder,
) -> [u8; FUNCTION_SIZE] {
    let (id, action) = (id & (FUNCTION_LIMIT - 1), action as u32);
    match order {
        ByteOrder::Little => {
            (u64::from(delta) << 32 | u64::from(id << 4 | action << 1)).to_le_bytes()
        }
        ByteOrder::Big => (u64::from(action << 28 | id) << 32 | u64::from(delta)).to_be_bytes(),
    }
}

/// Encodes a metadata record, without its payload. A [`Record::Function`] is none: see
/// [`encode_function`].
#[must_use]
pub fn encode_metadata(record: &Record, layout: Layout) -> [u8; METADATA_SIZE] {
    let mut put = Put {
        bytes: [0; METADATA_SIZE],
        at: 1,
        order: layout.order,
    };
    put.bytes[0] = match layout.order {
        ByteOrder::Little => record.kind() << 1 | 1,
        ByteOrder::Big => 0x80 | record.kind(),
    };
    match *record {
        Record::Function { .. } | Record::EndOfBuffer => {}
        Record::NewBuffer { thread: number } | Record::Pid { process: number } => put.u32(number),
        Record::NewCpu { cpu, tsc } => {
            put.u16(cpu);
            put.u64(tsc);
        }
        Record::TscWrap { tsc: number }
        | Record::CallArgument { value: number }
        | Record::BufferExtents { bytes: number } => put.u64(number),
        Record::WallTime { seconds, micros } => {
            put.u64(seconds);
            put.u32(micros);
        }
        Record::Custom { size, when, cpu } => {
            put.u32(size as u32);
            match when {
                When::Absolute(tsc) => put.u64(tsc),
                When::Delta(delta) => put.u32(delta as u32),
            }
            if let Some(cpu) = cpu {
                put.u16(cpu);
            }
        }
        Record::Typed { size, delta, kind } => {
            put.u32(size as u32);
            put.u32(delta as u32);
            put.u16(kind);
        }
    }
    put.bytes
}

/// Puts fields one behind the other.
struct Put<const N: usize> {
    bytes: [u8; N],
    at: usize,
    order: ByteOrder,
}

impl<const N: usize> Put<N> {
    fn bytes(&mut self, field: &[u8]) {
        let end = self.at + field.len();
        // Every layout above fits; a layout that did not would lose the field, not panic.
        if let Some(place) = self.bytes.get_mut(self.at..end) {
            place.copy_from_slice(field);
        }
        debug_assert!(end <= N, "a record layout is too long");
        self.at = end;
    }

    fn u16(&mut self, value: u16) {
        let big = self.order == ByteOrder::Big;
        self.bytes(&if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
    }

    fn u32(&mut self, value: u32) {
        let big = self.order == ByteOrder::Big;
        self.bytes(&if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
    }

    fn u64(&mut self, value: u64) {
        let big = self.order == ByteOrder::Big;
        self.bytes(&if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        });
    }
}

/// Encodes the header.
#[must_use]
pub fn encode_header(header: &Header) -> [u8; HEADER_SIZE] {
    let order = header.layout.order;
    let mut put = Put {
        bytes: [0; HEADER_SIZE],
        at: 0,
        order,
    };
    let bits = u32::from(header.constant) | u32::from(header.nonstop) << 1;
    put.u16(header.layout.version);
    put.u16(1);
    put.u32(if order == ByteOrder::Big {
        bits.reverse_bits()
    } else {
        bits
    });
    put.u64(header.frequency);
    put.u64(header.buffer_size);
    put.bytes
}
