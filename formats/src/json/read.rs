//! Reads JSON by `serde_json`. Each error has a byte offset. `serde_json` refuses more than 128 nested levels. It
//! allocates no more than the bytes that it has read.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A fault of a text, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// Byte offset in the text.
    pub(crate) offset: u64,
    /// The fault.
    pub(crate) what: String,
}

/// Reads a whole text.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Bad> {
    serde_json::from_slice(bytes).map_err(|error| bad(bytes, &error))
}

/// An error of `serde_json` with an offset, in place of line and column.
fn bad(bytes: &[u8], error: &serde_json::Error) -> Bad {
    let lines = bytes
        .split_inclusive(|&byte| byte == b'\n')
        .take(error.line().saturating_sub(1));
    // A column is from 1 for a byte that is there. At the end, it is the number of bytes.
    let column = error.column().saturating_sub(usize::from(!error.is_eof()));
    let offset = lines.map(<[u8]>::len).sum::<usize>() + column;
    let mut what = error.to_string();
    if let Some(end) = what.rfind(" at line ") {
        what.truncate(end);
    }
    Bad {
        offset: offset as u64,
        what,
    }
}

/// A whole number, where it fits.
pub(crate) fn int<T: TryFrom<i128>>(value: &Value) -> Option<T> {
    let signed = value.as_i64().map(i128::from);
    let number = signed.or_else(|| value.as_u64().map(i128::from))?;
    T::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_place() {
        for (text, offset, what) in [
            ("", 0, "EOF while parsing a value"),
            ("[1", 2, "EOF while parsing a list"),
            ("[1,\n2 3]", 6, "expected `,` or `]`"),
            ("[1]]", 3, "trailing characters"),
        ] {
            let bad = parse::<Vec<Value>>(text.as_bytes()).expect_err(text);
            assert_eq!((bad.offset, &*bad.what), (offset, what), "{text}");
        }
        let deep = "[".repeat(1_000_000);
        let bad = parse::<Value>(deep.as_bytes()).expect_err("too deep");
        assert!(bad.what.contains("recursion limit"), "{}", bad.what);
    }

    #[test]
    fn numbers_fit_or_are_none() {
        let all = parse::<Vec<Value>>(b"[18446744073709551615,-9223372036854775808,1.5]");
        let all = all.expect("numbers");
        assert_eq!(int::<u64>(&all[0]), Some(u64::MAX));
        assert_eq!(int::<i64>(&all[0]), None);
        assert_eq!(int::<i64>(&all[1]), Some(i64::MIN));
        assert_eq!(int::<i64>(&all[2]), None);
    }
}
