//! Texts that HTDUMP and its readers can take: no zero byte ends them early, no quotation mark,
//! backslash or control character breaks the JSON that viewers make of them without escaping.
//! [`escape`] and [`unescape`] keep any bytes; [`label`] is for people and loses what it replaces.

use std::borrow::Cow;

/// Whether viewers print this character as it is.
fn plain(character: char) -> bool {
    !character.is_control() && character != '"' && character != '\\'
}

/// Any bytes as text: UTF-8 stays, all else is `%` and two hexadecimal digits, as is `%` itself.
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if plain(character) && character != '%' {
                text.push(character);
            } else {
                push_bytes(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        push_bytes(&mut text, chunk.invalid());
    }
    text
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    for &byte in bytes {
        text.extend(['%', digit(byte >> 4), digit(byte)]);
    }
}

/// The reverse of [`escape`]. A `%` that no two digits follow stands for itself.
pub(super) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let digits = after.split_first_chunk::<2>();
        let value = |digit: u8| char::from(digit).to_digit(16);
        match digits.map(|(&[high, low], left)| (value(high), value(low), left)) {
            Some((Some(high), Some(low), left)) if first == b'%' => {
                bytes.push((high * 16 + low) as u8);
                rest = left;
            }
            _ => bytes.push(first),
        }
    }
    Cow::Owned(bytes)
}

/// [`unescape`] as text; what is no UTF-8 becomes U+FFFD.
pub(super) fn unescape_text(text: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(text)).into_owned()
}

/// A name that viewers take: marks they would stumble over are replaced by similar ones.
pub(super) fn label(name: &str) -> Cow<'_, str> {
    if name.chars().all(plain) {
        return Cow::Borrowed(name);
    }
    let similar = |character| match character {
        '"' => '\'',
        '\\' => '/',
        _ if plain(character) => character,
        _ => ' ',
    };
    Cow::Owned(name.chars().map(similar).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        let cases: [&[u8]; 6] = [
            b"",
            b"plain text",
            "λ → 50 % \u{85}".as_bytes(),
            b"\"\\\0\x1f\x7f%41%",
            b"\xff\xc3",
            &all,
        ];
        for bytes in cases {
            let text = escape(bytes);
            assert!(text.chars().all(plain), "{text:?}");
            assert_eq!(unescape(text.as_bytes()), bytes, "{text:?}");
        }
        assert_eq!(escape("λ\"%\0".as_bytes()), "λ%22%25%00");
        assert_eq!(&*unescape(b"100 % %zz %4"), b"100 % %zz %4");
    }

    #[test]
    fn labels_look_like_their_names() {
        assert!(matches!(label("a::b<λ>"), Cow::Borrowed("a::b<λ>")));
        assert_eq!(label("\"a\\b\"\n\0"), "'a/b'  ");
    }
}
