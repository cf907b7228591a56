//! The part of bincode 2's standard configuration that ENTRACE needs, in both directions. This file
//! converts between bytes and values. No method panics. No method allocates from a length that it read.
//!
//! | value | bytes |
//! | --- | --- |
//! | unsigned up to 250 | the value itself |
//! | … up to 2^16 - 1 | 251, 2 bytes little-endian |
//! | … up to 2^32 - 1 | 252, 4 bytes (not for a u16) |
//! | … up to 2^64 - 1 | 253, 8 bytes (not for a u32) |
//! | … up to 2^128 - 1 | 254, 16 bytes (u128 only); 255 means nothing |
//! | signed | zigzag (0, -1, 1, -2, …), then as unsigned |
//! | u8, bool, presence of an option | one byte |
//! | f64 | 8 bytes, little-endian |
//! | text, bytes, list | length as a u64, then the elements |
//! | variant of an enum | number as a u32 |
//!
//! The decoder accepts a number in more bytes than necessary (such as 251 and a 5), because bincode itself does. The
//! encoder writes the shortest form. So an entry may be encoded to other bytes than it was read from, and still not be
//! damaged.

use std::fmt;

/// Why the bytes hold no such value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The bytes end too early.
    Short,
    /// This first byte stands for a number that is too wide, or for no number.
    Width(u8),
    /// A boolean that is neither 0 nor 1.
    Bool(u8),
    /// The presence of an option that is neither 0 nor 1.
    Presence(u8),
    /// Text that is no UTF-8.
    Text,
    /// No such variant of this enum.
    Variant(&'static str, u32),
    /// Lists that belong together have different lengths.
    Lengths,
    /// A list is longer than this library reads.
    Many,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::Short => f.write_str("the bytes end too early"),
            Bad::Width(first) => write!(f, "no number of this kind begins with the byte {first}"),
            Bad::Bool(byte) => write!(f, "a boolean is {byte}"),
            Bad::Presence(byte) => write!(f, "the presence of an option is {byte}"),
            Bad::Text => f.write_str("a text is no UTF-8"),
            Bad::Variant(what, number) => write!(f, "there is no {what} {number}"),
            Bad::Lengths => f.write_str("there are more names than values, or fewer"),
            Bad::Many => f.write_str("a list is longer than fdr reads"),
        }
    }
}

/// Takes values off the front of some bytes.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
    size: usize,
}

impl<'a> Input<'a> {
    /// Values of these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        let (rest, size) = (bytes, bytes.len());
        Input { rest, size }
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn consumed(&self) -> usize {
        self.size - self.rest.len()
    }

    /// Bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    fn take(&mut self, count: usize) -> Result<&'a [u8], Bad> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Bad::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Bad::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Takes these bytes, if they are next.
    #[inline]
    fn skip(&mut self, bytes: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(bytes);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A number of at most `widest` bytes, which are 4 or 8.
    #[inline]
    fn narrow(&mut self, widest: u8) -> Result<u64, Bad> {
        match self.byte()? {
            small @ 0..=250 => Ok(small.into()),
            251 => Ok(u16::from_le_bytes(self.array()?).into()),
            252 => Ok(u32::from_le_bytes(self.array()?).into()),
            253 if widest == 8 => Ok(u64::from_le_bytes(self.array()?)),
            first => Err(Bad::Width(first)),
        }
    }

    /// A byte.
    ///
    /// # Errors
    /// [`Bad::Short`].
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Bad> {
        self.array().map(|[byte]| byte)
    }

    /// An unsigned number of 32 bits.
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Width`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Bad> {
        self.narrow(4).map(|number| number as u32)
    }

    /// An unsigned number of 64 bits.
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Width`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Bad> {
        self.narrow(8)
    }

    /// An unsigned number of 128 bits.
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Width`].
    pub fn u128(&mut self) -> Result<u128, Bad> {
        if self.skip(&[254]) {
            return self.array().map(u128::from_le_bytes);
        }
        self.narrow(8).map(u128::from)
    }

    /// A signed number of 64 bits.
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Width`].
    pub fn i64(&mut self) -> Result<i64, Bad> {
        let zigzag = self.u64()?;
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// A signed number of 128 bits.
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Width`].
    pub fn i128(&mut self) -> Result<i128, Bad> {
        let zigzag = self.u128()?;
        Ok((zigzag >> 1) as i128 ^ -((zigzag & 1) as i128))
    }

    /// A floating-point number, to the bit.
    ///
    /// # Errors
    /// [`Bad::Short`].
    pub fn f64(&mut self) -> Result<f64, Bad> {
        self.array().map(f64::from_le_bytes)
    }

    /// A boolean.
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Bool`].
    pub fn bool(&mut self) -> Result<bool, Bad> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            byte => Err(Bad::Bool(byte)),
        }
    }

    /// Whether an option follows.
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Presence`].
    #[inline]
    pub fn present(&mut self) -> Result<bool, Bad> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            byte => Err(Bad::Presence(byte)),
        }
    }

    /// The length of a list. An element has at least one byte. So a list of more elements than bytes is
    /// [`Bad::Short`].
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Width`].
    #[inline]
    pub fn length(&mut self) -> Result<usize, Bad> {
        let length = usize::try_from(self.u64()?).map_err(|_| Bad::Short)?;
        if length > self.rest.len() {
            return Err(Bad::Short);
        }
        Ok(length)
    }

    /// Bytes with their length in front.
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Width`].
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Bad> {
        let length = self.length()?;
        self.take(length)
    }

    /// Text with its length in front.
    ///
    /// # Errors
    /// [`Bad::Short`], [`Bad::Width`], [`Bad::Text`].
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, Bad> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Bad::Text)
    }
}

/// Appends an unsigned number of up to 64 bits, in its shortest form.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    match value {
        0..=250 => out.push(a),
        251..=0xffff => out.extend_from_slice(&[251, a, b]),
        0x1_0000..=0xffff_ffff => out.extend_from_slice(&[252, a, b, c, d]),
        _ => out.extend_from_slice(&[253, a, b, c, d, e, f, g, h]),
    }
}

/// Appends an unsigned number of 128 bits.
pub fn put_u128(out: &mut Vec<u8>, value: u128) {
    match u64::try_from(value) {
        Ok(value) => put_u64(out, value),
        Err(_) => {
            out.push(254);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// The unsigned number that stands for a signed number of 64 bits.
#[must_use]
pub fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Appends a signed number of 128 bits.
pub fn put_i128(out: &mut Vec<u8>, value: i128) {
    put_u128(out, (value << 1 ^ value >> 127) as u128);
}

/// Appends bytes with their length in front.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends text with its length in front.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}
