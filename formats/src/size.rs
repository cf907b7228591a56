//! The words of `FDR_BUFFER`, `FDR_MEMORY`, and of the sizes in `FDR_TRIGGER` and `FDR_OUT_MOST`.

use crate::text::owned;

/// A size in bytes: a number, then `K`, `M` or `G` for a power of 1024, in upper or lower case.
///
/// # Errors
/// What is accepted.
///
/// # Examples
/// ```
/// use fdr_formats::size;
///
/// assert_eq!(size::parse("4M"), Ok(4 << 20));
/// assert!(size::parse("4 MB").is_err());
/// ```
pub fn parse(text: &str) -> Result<u64, String> {
    let malformed =
        || owned("not a size; accepted are bytes, or a number with K, M or G, such as 4M");
    let unit = text.chars().last().map(|unit| unit.to_ascii_uppercase());
    let shift = match unit {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        _ => 0,
    };
    let units = usize::from(shift > 0);
    let digits = text.get(..text.len() - units).unwrap_or_default();
    // Rust's own parser would accept a sign.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(malformed());
    }
    let number: u64 = digits.parse().map_err(|_| too_large())?;
    // The limit is that of mappings, whose lengths are signed.
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes <= i64::MAX as u64)
        .ok_or_else(too_large)
}

/// The error for a size that no memory has.
#[must_use]
pub fn too_large() -> String {
    owned("too large; it must be below 8 EiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("131072", 131_072),
            ("256K", 262_144),
            ("256k", 262_144),
            ("4M", 4_194_304),
            ("1G", 1_073_741_824),
            ("007m", 7_340_032),
            ("9223372036854775807", i64::MAX as u64),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in [
            "", "K", "4T", "4MB", "4 M", "-4M", "+4M", "4.5M", "M4", "٤", "0x10", "é",
        ] {
            assert!(parse(text).unwrap_err().contains("not a size"), "{text}");
        }
        for text in [
            "9223372036854775808",
            "18446744073709551616",
            "17179869184G",
            "99999999999G",
        ] {
            assert!(parse(text).unwrap_err().contains("too large"), "{text}");
        }
    }
}
