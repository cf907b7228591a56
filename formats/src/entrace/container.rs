//! The head of an ENTRACE file: which of the three containers, in which version. Pure.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | 0, then `ENTRACE` |
//! | 8 | 1 | version: 1 (the document's, `entrace_core` 0.1), 2 (`entrace_core` 0.2) |
//! | 9 | 1 | container: ET 0, IET 1, `IETPrefix` 2 |
//!
//! | container | after the head |
//! | --- | --- |
//! | IET | entries |
//! | `IETPrefix` | (bytes of the entry as a u64, little-endian, 8 bytes; entry) each |
//! | ET | offsets: list of u64; pool: list of (list of u32); entries |
//!
//! An offset counts from the end of the pool. The pool has for each entry its children, ascending.

use std::fmt;

/// Bytes of the head.
pub const HEAD_SIZE: usize = 10;
/// Bytes of the length in front of each entry of an `IETPrefix`.
pub const PREFIX_SIZE: usize = 8;

/// How entries are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Attributes are pairs.
    V1 = 1,
    /// Names of all attributes, then values.
    V2 = 2,
}

/// How entries are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// By tables in front.
    Et = 0,
    /// One after the other.
    Iet = 1,
    /// Each with its length in front; what goes over a network.
    IetPrefix = 2,
}

/// What kind of ENTRACE file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// How entries are encoded.
    pub version: Version,
    /// How entries are found.
    pub container: Container,
}

/// Why there is no such head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHead {
    /// The bytes are not ENTRACE's, or too few.
    Magic,
    /// This version is not known.
    Version(u8),
    /// This container is not known.
    Container(u8),
}

/// Whether a file that begins with these bytes is one of ENTRACE's.
#[must_use]
pub fn probe(head: &[u8]) -> bool {
    head.starts_with(b"\0ENTRACE")
}

/// Reads the head.
///
/// # Errors
/// Where it is none that this library knows.
pub fn decode_head(bytes: &[u8]) -> Result<Kind, BadHead> {
    let head: Option<&[u8; HEAD_SIZE]> = bytes.first_chunk();
    let Some(&[.., version, container]) = head.filter(|head| probe(&head[..])) else {
        return Err(BadHead::Magic);
    };
    let version = match version {
        1 => Version::V1,
        2 => Version::V2,
        other => return Err(BadHead::Version(other)),
    };
    let container = match container {
        0 => Container::Et,
        1 => Container::Iet,
        2 => Container::IetPrefix,
        other => return Err(BadHead::Container(other)),
    };
    Ok(Kind { version, container })
}

/// The head.
#[must_use]
pub fn encode_head(kind: Kind) -> [u8; HEAD_SIZE] {
    let [a, b, c, d, e, f, g, h] = *b"\0ENTRACE";
    let (version, container) = (kind.version as u8, kind.container as u8);
    [a, b, c, d, e, f, g, h, version, container]
}

/// Appends the entry that `put` appends, with its length in front if need be.
#[inline]
pub(super) fn put_entry(out: &mut Vec<u8>, prefixed: bool, put: impl FnOnce(&mut Vec<u8>)) {
    if !prefixed {
        return put(out);
    }
    let begin = out.len();
    out.extend_from_slice(&[0; PREFIX_SIZE]);
    put(out);
    let size = (out.len() - begin - PREFIX_SIZE) as u64;
    out[begin..begin + PREFIX_SIZE].copy_from_slice(&size.to_le_bytes());
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = match self.container {
            Container::Et => "ET",
            Container::Iet => "IET",
            Container::IetPrefix => "IETPrefix",
        };
        write!(f, "ENTRACE {container}, version {}", self.version as u8)
    }
}

impl fmt::Display for BadHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHead::Magic => f.write_str("not a head of ENTRACE's"),
            BadHead::Version(version) => {
                write!(
                    f,
                    "version {version} of ENTRACE; versions 1 and 2 are known"
                )
            }
            BadHead::Container(number) => write!(
                f,
                "container {number} of ENTRACE; 0 (ET), 1 (IET) and 2 (IETPrefix) are known"
            ),
        }
    }
}
