//! The control block of a ring file: what `fdr ctl` and a running recorder write to each other. Pure: bytes and
//! texts. Neither side may trust a length or a text of the other side.
//!
//! Source: this project. Little-endian. The header of the ring says where the block is.
//!
//! | part | offset | field |
//! | --- | --- | --- |
//! | head | 0 | u32: number of the newest command, from 1; the recorder's thread sleeps on it |
//! | | 4, 8 | u32 each: number of the last command that has an answer, that was read |
//! | | 12 | u32: 1 = a thread of the process reads commands |
//! | | 16 | u32: bytes from the block's start to the [`moments`](super::moments); 0 = none, as in older rings |
//! | command | 64 | u32: [`Kind`]; u32: bytes of the text; u64: check; text |
//! | answer | 4096 | u32: 0 = done, 1 = refused; u32: bytes of the text; u64: check; text |
//!
//! 1. The tool holds a lock on the head's bytes of the file, so one tool writes at a time. The lock ends with the tool.
//! 2. The tool writes a command, then its number, and wakes the recorder's thread.
//! 3. The thread copies the command, notes that it was read, carries it out, writes the answer, then its number.
//! 4. A tool that gives up replaces its command by [`Kind::Nothing`], so that the recorder does not carry it out later.
//!
//! The check is FNV-1a, 64 bits, over the number, kind or state, length (u32 each) and the text. A command that was
//! copied while another tool wrote it fails the check, and so do bytes that no tool wrote.

/// Bytes of the block.
pub const SIZE: usize = 8192;
/// The place of the command, and its bytes.
pub const COMMAND_AT: usize = 64;
/// Bytes of the command.
pub const COMMAND_SIZE: usize = ANSWER_AT - COMMAND_AT;
/// The place of the answer.
pub const ANSWER_AT: usize = 4096;
/// Bytes of the answer.
pub const ANSWER_SIZE: usize = SIZE - ANSWER_AT;
/// Bytes before a text.
const TEXT_AT: usize = 16;
/// Bytes of the longest text of a command.
pub const MAX_TEXT: usize = COMMAND_SIZE - TEXT_AT;
/// Bytes of the longest text of an answer. The rest of a longer one is cut off.
pub const MAX_ANSWER: usize = ANSWER_SIZE - TEXT_AT;

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Do nothing. It withdraws the previous command.
    Nothing = 0,
    /// Record.
    On = 1,
    /// Do not record.
    Off = 2,
    /// Record the functions of the text, in the words of `FDR`.
    Filter = 3,
    /// Let a full ring hold the time of the text, in the words of `FDR_KEEP`.
    Keep = 4,
    /// Write a trace. The answer is its path.
    Dump = 5,
    /// State facts and counts. The answer has lines of a word, a space, and a value.
    Status = 6,
    /// Name this moment: the text.
    Mark = 7,
    /// Replace the triggers by those of the text, in the words of `FDR_TRIGGER`.
    Trigger = 8,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Nothing,
        Kind::On,
        Kind::Off,
        Kind::Filter,
        Kind::Keep,
        Kind::Dump,
        Kind::Status,
        Kind::Mark,
        Kind::Trigger,
    ];

    fn from_raw(raw: u32) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u32 == raw)
    }
}

/// The fields at the block's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of the newest command.
    pub requested: u32,
    /// Number of the last command that has an answer.
    pub answered: u32,
    /// Number of the last command that was read.
    pub received: u32,
    /// Whether a thread of the process reads commands.
    pub listens: bool,
    /// Bytes from the block's start to the moments; 0: there are none.
    pub moments: u32,
}

/// Decodes the head. `None`: too few bytes.
#[must_use]
pub fn decode_head(bytes: &[u8]) -> Option<Head> {
    let word = |at| number(bytes, at);
    Some(Head {
        requested: word(0)?,
        answered: word(4)?,
        received: word(8)?,
        listens: word(12)? != 0,
        moments: word(16)?,
    })
}

/// The bytes of a command. `None`: the text is longer than [`MAX_TEXT`].
#[must_use]
pub fn encode_command(number: u32, kind: Kind, text: &str) -> Option<Vec<u8>> {
    (text.len() <= MAX_TEXT).then(|| encode(number, kind as u32, text))
}

/// Decodes a command. `None`: it is damaged, incomplete, or of a kind that this version does not know.
#[must_use]
pub fn decode_command(number: u32, bytes: &[u8]) -> Option<(Kind, &str)> {
    let (kind, text) = decode(number, bytes)?;
    Some((Kind::from_raw(kind)?, text))
}

/// The bytes of an answer. A text that is too long loses its end.
#[must_use]
pub fn encode_answer(number: u32, answer: Result<&str, &str>) -> Vec<u8> {
    let (Ok(text) | Err(text)) = answer;
    let text = crate::text::cut(text, MAX_ANSWER);
    encode(number, u32::from(answer.is_err()), text)
}

#[cfg(feature = "read")]
/// Decodes an answer: its text, or why the command was refused. `None`: it is damaged.
#[must_use]
pub fn decode_answer(number: u32, bytes: &[u8]) -> Option<Result<&str, &str>> {
    match decode(number, bytes)? {
        (0, text) => Some(Ok(text)),
        (_, text) => Some(Err(text)),
    }
}

fn encode(number: u32, kind: u32, text: &str) -> Vec<u8> {
    let length = text.len() as u32;
    let mut bytes = Vec::with_capacity(TEXT_AT + text.len());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(check(number, kind, text.as_bytes()).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

fn decode(numbered: u32, bytes: &[u8]) -> Option<(u32, &str)> {
    let (kind, length) = (number(bytes, 0)?, number(bytes, 4)?);
    let stated = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
    let text = bytes.get(TEXT_AT..)?.get(..usize::try_from(length).ok()?)?;
    let is_whole = stated == check(numbered, kind, text);
    let text = std::str::from_utf8(text).ok().filter(|_| is_whole)?;
    Some((kind, text))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn check(number: u32, kind: u32, text: &[u8]) -> u64 {
    let words = [number, kind, text.len() as u32].map(u32::to_le_bytes);
    let bytes = words.as_flattened().iter().chain(text);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(all(test, feature = "read"))]
mod tests {
    use super::*;

    #[test]
    fn a_command_typed_by_hand() {
        let mut bytes = b"\x03\0\0\0\x04\0\0\0".to_vec();
        let check = check(7, 3, b"a::*");
        bytes.extend(check.to_le_bytes());
        bytes.extend(b"a::*");
        assert_eq!(
            encode_command(7, Kind::Filter, "a::*").as_ref(),
            Some(&bytes)
        );
        bytes.extend(b"of the command before");
        assert_eq!(decode_command(7, &bytes), Some((Kind::Filter, "a::*")));
        // The number of another command.
        assert_eq!(decode_command(8, &bytes), None);
    }

    #[test]
    fn the_check_is_fnv_1a() {
        // Twelve zeros, by another implementation's steps.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for _ in 0..12 {
            hash = hash.wrapping_mul(0x0100_0000_01b3);
        }
        assert_eq!(check(0, 0, b""), hash);
    }

    #[test]
    fn every_damage_is_noticed() {
        let bytes = encode_command(7, Kind::Keep, "30s").expect("a short text");
        for end in 0..bytes.len() {
            assert_eq!(decode_command(7, &bytes[..end]), None, "{end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert_eq!(decode_command(7, &damaged), None, "{at}, {bit}");
            }
        }
        assert_eq!(decode_command(7, &[0xff; COMMAND_SIZE]), None);
        assert_eq!(decode_command(0, &[0; COMMAND_SIZE]), None);
        // Whole, and of a kind of later versions.
        assert_eq!(decode_command(7, &encode(7, 99, "")), None);
    }

    #[test]
    fn texts_have_bounds() {
        let long = "ä".repeat(MAX_ANSWER);
        assert_eq!(encode_command(1, Kind::Filter, &long), None);
        let bytes = encode_answer(1, Err(&long));
        assert_eq!(bytes.len(), ANSWER_SIZE);
        let cut = decode_answer(1, &bytes).expect("whole");
        assert_eq!(cut, Err(&long[..MAX_ANSWER]));
        assert_eq!(decode_answer(2, &bytes), None);
        let bytes = encode_answer(3, Ok("done"));
        assert_eq!(decode_answer(3, &bytes), Some(Ok("done")));
    }

    #[test]
    fn a_head_typed_by_hand() {
        let bytes = b"\x05\0\0\0\x03\0\0\0\x04\0\0\0\x01\0\0\0\0\x20\0\0";
        let head = decode_head(bytes).expect("a head");
        assert_eq!((head.requested, head.answered, head.received), (5, 3, 4));
        assert!(head.listens);
        assert_eq!(head.moments, 8192);
        assert_eq!(decode_head(&bytes[..19]), None);
    }
}
