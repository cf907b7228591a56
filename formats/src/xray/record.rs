//! Record layer of XRay FDR: the layout of each record, decoded and encoded. Pure functions over bytes. Reserved bytes
//! are written as zero.
//!
//! Source: LLVM's document "XRay Flight Data Recorder Trace Format" (version 1), and what `llvm-xray` 14
//! and 19 read (versions 2 to 5). Numbers are in the byte order of the platform that wrote the file.
//!
//! Header, 32 bytes:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 2 | version, 1 to 5 |
//! | 2 | 2 | type, 1 = flight data recorder |
//! | 4 | 4 | bit 0 `constant_tsc`, bit 1 `nonstop_tsc` (big-endian: bits 31 and 30) |
//! | 8 | 8 | `cycle_frequency`, Hz |
//! | 16 | 8 | version 1: `buffer_size`, bytes; version 3, in files of this project: bytes of the file, 0 = not stated |
//! | 24 | 8 | reserved; version 3, in files of this project: threads of the file |
//!
//! Function record, 8 bytes:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | little-endian: bit 0 = 0, bits 1 to 3 action, bits 4 to 31 function id; big-endian: bit 31 = 0, bits 28 to 30 action, bits 0 to 27 function id |
//! | 4 | 4 | ticks since the record before, or since the base that it set |
//!
//! Metadata record, 16 bytes. The first byte is `kind << 1 | 1` (little-endian) or `0x80 | kind`
//! (big-endian). The other 15 bytes are the body, unused bytes zero:
//!
//! | kind | body |
//! | --- | --- |
//! | 0 `NewBuffer` | i32 thread |
//! | 1 `EndOfBuffer` | version 1 only |
//! | 2 `NewCPUId` | u16 CPU, u64 absolute tick |
//! | 3 `TSCWrap` | u64 absolute tick |
//! | 4 `WallTime` | u64 seconds, u32 microseconds |
//! | 5 `CustomEvent` | i32 size; up to version 3: u64 absolute tick; version 4: the same, u16 CPU; version 5: i32 delta. The payload follows |
//! | 6 `CallArgument` | u64 value |
//! | 7 `BufferExtents` | u64 bytes that follow this record; version 2 and up |
//! | 8 `TypedEvent` | i32 size, i32 delta, u16 type. The payload follows |
//! | 9 `Pid` | i32 process; version 3 and up |

use crate::bytes::{ByteOrder, Fields};

/// Bytes of the header.
pub const HEADER_SIZE: usize = 32;
/// Bytes of a function record.
pub const FUNCTION_SIZE: usize = 8;
/// Bytes of a metadata record, without its payload.
pub const METADATA_SIZE: usize = 16;
/// Function ids are below this.
pub const FUNCTION_LIMIT: u32 = 1 << 28;

/// The facts that decide the layout of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Byte order of the file.
    pub order: ByteOrder,
    /// Version of the file, 1 to 5.
    pub version: u16,
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Byte order and version.
    pub layout: Layout,
    /// The counter has a constant rate.
    pub constant: bool,
    /// The counter runs on in low-power states.
    pub nonstop: bool,
    /// Ticks per second, in Hz.
    pub frequency: u64,
    /// Version 1: bytes of each buffer, its end and fill included.
    pub buffer_size: u64,
}

/// The offset of the [`Extent`] in a header.
pub const EXTENT_AT: u64 = 16;

/// How much a whole file has, so that a reader knows when its end is missing. It is in headers of version 3, in files of
/// this project. Others have anything there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of the file.
    pub bytes: u64,
    /// Its threads.
    pub threads: u64,
}

impl Extent {
    /// The bytes at [`EXTENT_AT`], little-endian as each file of ours. Async-signal-safe.
    #[must_use]
    pub fn encode(self) -> [u8; 16] {
        (u128::from(self.bytes) | u128::from(self.threads) << 64).to_le_bytes()
    }

    /// `None`: the header does not state it.
    #[must_use]
    pub fn decode(header: &[u8; HEADER_SIZE]) -> Option<Extent> {
        let mut fields = Fields::new(header.get(EXTENT_AT as usize..)?, ByteOrder::Little);
        let extent = Extent {
            bytes: fields.u64()?,
            threads: fields.u64()?,
        };
        (extent.bytes > 0).then_some(extent)
    }
}

/// The action of a function record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Entered.
    Entry = 0,
    /// Left.
    Exit = 1,
    /// Left by a tail call.
    TailExit = 2,
    /// Entered; `CallArgument` records follow.
    EntryArgs = 3,
}

/// Time of an event record: absolute, or relative to the running base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordTime {
    /// A tick; the running base stays.
    Absolute(u64),
    /// Ticks to add to the running base.
    Delta(i32),
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// One edge of one call.
    Function {
        /// Function id, below [`FUNCTION_LIMIT`].
        id: u32,
        /// What happened.
        action: Action,
        /// Ticks to add to the running base.
        delta: u32,
    },
    /// A block of this thread begins.
    NewBuffer {
        /// Thread.
        thread: u32,
    },
    /// No more records in this buffer.
    EndOfBuffer,
    /// The thread runs on this CPU; the running base is replaced.
    NewCpu {
        /// CPU.
        cpu: u16,
        /// Absolute tick.
        tsc: u64,
    },
    /// The running base is replaced.
    TscWrap {
        /// Absolute tick.
        tsc: u64,
    },
    /// Wall-clock time.
    WallTime {
        /// Seconds.
        seconds: u64,
        /// Microseconds.
        micros: u32,
    },
    /// A payload of `size` bytes follows.
    Custom {
        /// Bytes of the payload; not positive is an error.
        size: i32,
        /// When.
        when: RecordTime,
        /// CPU, version 4 only.
        cpu: Option<u16>,
    },
    /// One argument of the call before.
    CallArgument {
        /// Its value.
        value: u64,
    },
    /// The next block has this many bytes.
    BufferExtents {
        /// Bytes after this record.
        bytes: u64,
    },
    /// A payload of `size` bytes with a type follows.
    Typed {
        /// Bytes of the payload; not positive is an error.
        size: i32,
        /// Ticks to add to the running base.
        delta: i32,
        /// Type.
        kind: u16,
    },
    /// The process.
    Pid {
        /// Process id.
        process: u32,
    },
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// They end inside the record.
    Short,
    /// A function record with an unknown action; 8 bytes.
    Action(u8),
    /// A metadata record of an unknown kind; 16 bytes.
    Kind(u8),
}

impl Record {
    /// Bytes of the record, without its payload.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Record::Function { .. } => FUNCTION_SIZE,
            _ => METADATA_SIZE,
        }
    }

    /// Its name in XRay's document and tools.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Record::Function { action, .. } => match action {
                Action::Entry => "Entry",
                Action::Exit => "Exit",
                Action::TailExit => "TailExit",
                Action::EntryArgs => "EntryArgs",
            },
            Record::NewBuffer { .. } => "NewBuffer",
            Record::EndOfBuffer => "EndOfBuffer",
            Record::NewCpu { .. } => "NewCPUId",
            Record::TscWrap { .. } => "TSCWrap",
            Record::WallTime { .. } => "WallTime",
            Record::Custom { .. } => "CustomEvent",
            Record::CallArgument { .. } => "CallArgument",
            Record::BufferExtents { .. } => "BufferExtents",
            Record::Typed { .. } => "TypedEvent",
            Record::Pid { .. } => "Pid",
        }
    }

    pub(super) fn kind(&self) -> u8 {
        match self {
            Record::NewBuffer { .. } | Record::Function { .. } => 0,
            Record::EndOfBuffer => 1,
            Record::NewCpu { .. } => 2,
            Record::TscWrap { .. } => 3,
            Record::WallTime { .. } => 4,
            Record::Custom { .. } => 5,
            Record::CallArgument { .. } => 6,
            Record::BufferExtents { .. } => 7,
            Record::Typed { .. } => 8,
            Record::Pid { .. } => 9,
        }
    }
}

/// Whether a record that begins with this byte is a metadata record.
#[must_use]
pub fn is_metadata(first: u8, order: ByteOrder) -> bool {
    match order {
        ByteOrder::Little => first & 1 != 0,
        ByteOrder::Big => first & 0x80 != 0,
    }
}

/// The eight bytes of a function record, as a number in the little-endian layout: bit 0 discriminant,
/// bits 1 to 3 action, bits 4 to 31 function id, bits 32 to 63 delta.
#[inline]
#[must_use]
pub fn function_word<const BIG: bool>(bytes: [u8; FUNCTION_SIZE]) -> u64 {
    if !BIG {
        return u64::from_le_bytes(bytes);
    }
    let whole = u64::from_be_bytes(bytes);
    let (head, delta) = (whole >> 32, whole & 0xffff_ffff);
    let (id, action, metadata) = (head & 0x0fff_ffff, (head >> 28) & 7, head >> 31);
    delta << 32 | id << 4 | action << 1 | metadata
}

/// Decodes the record at the start of `bytes`.
///
/// # Errors
/// If there are too few bytes, or no record. The caller checks whether a payload's size is possible.
pub fn decode(bytes: &[u8], layout: Layout) -> Result<Record, Bad> {
    let first = *bytes.first().ok_or(Bad::Short)?;
    if !is_metadata(first, layout.order) {
        let bytes = bytes.first_chunk::<FUNCTION_SIZE>().ok_or(Bad::Short)?;
        let word = match layout.order {
            ByteOrder::Little => function_word::<false>(*bytes),
            ByteOrder::Big => function_word::<true>(*bytes),
        };
        return function(word);
    }
    let bytes = bytes.get(1..METADATA_SIZE).ok_or(Bad::Short)?;
    let kind = match layout.order {
        ByteOrder::Little => first >> 1,
        ByteOrder::Big => first & 0x7f,
    };
    metadata(kind, bytes, layout).ok_or(Bad::Kind(kind))
}

fn function(word: u64) -> Result<Record, Bad> {
    let action = match (word >> 1) as u8 & 7 {
        0 => Action::Entry,
        1 => Action::Exit,
        2 => Action::TailExit,
        3 => Action::EntryArgs,
        unknown => return Err(Bad::Action(unknown)),
    };
    Ok(Record::Function {
        id: word as u32 >> 4,
        action,
        delta: (word >> 32) as u32,
    })
}

fn metadata(kind: u8, body: &[u8], layout: Layout) -> Option<Record> {
    let mut fields = Fields::new(body, layout.order);
    Some(match kind {
        0 => Record::NewBuffer {
            thread: thread_of(fields.u32()?, layout),
        },
        1 => Record::EndOfBuffer,
        2 => Record::NewCpu {
            cpu: fields.u16()?,
            tsc: fields.u64()?,
        },
        3 => Record::TscWrap { tsc: fields.u64()? },
        4 => Record::WallTime {
            seconds: fields.u64()?,
            micros: fields.u32()?,
        },
        5 => {
            let size = fields.u32()? as i32;
            let when = match layout.version {
                ..5 => RecordTime::Absolute(fields.u64()?),
                5.. => RecordTime::Delta(fields.u32()? as i32),
            };
            let cpu = if layout.version == 4 {
                Some(fields.u16()?)
            } else {
                None
            };
            Record::Custom { size, when, cpu }
        }
        6 => Record::CallArgument {
            value: fields.u64()?,
        },
        7 => Record::BufferExtents {
            bytes: fields.u64()?,
        },
        8 => Record::Typed {
            size: fields.u32()? as i32,
            delta: fields.u32()? as i32,
            kind: fields.u16()?,
        },
        9 => Record::Pid {
            process: fields.u32()?,
        },
        _ => return None,
    })
}

/// The document gives the thread two bytes, but every program writes four. In little-endian files both
/// are the same. In a big-endian file of the document's version, the two bytes are in the place of the
/// upper half.
fn thread_of(four: u32, layout: Layout) -> u32 {
    let documented = layout.order == ByteOrder::Big && layout.version == 1;
    if documented && four & 0xffff == 0 {
        four >> 16
    } else {
        four
    }
}

/// Decodes the header. `None`: it is no header of a known version.
#[must_use]
pub fn decode_header(bytes: &[u8]) -> Option<Header> {
    let order = match bytes.get(..4)? {
        [_, 0, 1, 0] => ByteOrder::Little,
        [0, _, 0, 1] => ByteOrder::Big,
        _ => return None,
    };
    let mut fields = Fields::new(bytes, order);
    let version = fields.u16().filter(|version| (1..=5).contains(version))?;
    let _type = fields.u16()?;
    let bits = fields.u32()?;
    let bits = if order == ByteOrder::Big {
        bits.reverse_bits()
    } else {
        bits
    };
    Some(Header {
        layout: Layout { order, version },
        constant: bits & 1 != 0,
        nonstop: bits & 2 != 0,
        frequency: fields.u64()?,
        buffer_size: fields.u64()?,
    })
}

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

/// Encodes a metadata record, without its payload. [`Record::Function`] is no metadata record: see
/// [`encode_function`].
#[must_use]
pub fn encode_metadata(record: &Record, layout: Layout) -> [u8; METADATA_SIZE] {
    let mut put = FieldWriter {
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
                RecordTime::Absolute(tsc) => put.u64(tsc),
                RecordTime::Delta(delta) => put.u32(delta as u32),
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
struct FieldWriter<const N: usize> {
    bytes: [u8; N],
    at: usize,
    order: ByteOrder,
}

impl<const N: usize> FieldWriter<N> {
    fn bytes(&mut self, field: &[u8]) {
        let end = self.at + field.len();
        // Each layout above fits. If one did not fit, the field would be lost without a panic.
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
    let mut put = FieldWriter {
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
