//! Any bytes as a text that viewers print as it is, and back. Quotation marks, backslashes and control characters would
//! break JSON, because viewers do not escape them. Pure.

use std::borrow::Cow;

/// Whether viewers print this character as it is.
pub(crate) fn plain(character: char) -> bool {
    !character.is_control() && character != '"' && character != '\\'
}

/// A name that viewers accept. Characters that they cannot read are replaced by similar ones.
pub(crate) fn label(name: &str) -> Cow<'_, str> {
    if name.chars().all(plain) {
        return Cow::Borrowed(name);
    }
    let similar = |character| match character {
        '"' => '\'',
        '\\' => '/',
        _ if plain(character) => character,
        _ => ' ',
    };
    let mut label = String::new();
    for character in name.chars() {
        label.push(similar(character));
    }
    Cow::Owned(label)
}

/// Any bytes as text. UTF-8 stays. Each other byte, and `%` itself, is `%` and two hexadecimal digits.
pub(crate) fn escape(bytes: &[u8]) -> String {
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
        text.push('%');
        text.push(digit(byte >> 4));
        text.push(digit(byte));
    }
}

/// The reverse of [`escape`]. A `%` without two digits behind it stands for itself.
pub(crate) fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
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

/// [`unescape`] as text; bytes that are no UTF-8 become U+FFFD.
pub(crate) fn unescape_text(text: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_look_like_their_names() {
        assert!(matches!(label("a::b<λ>"), Cow::Borrowed("a::b<λ>")));
        assert_eq!(label("\"a\\b\"\n\0"), "'a/b'  ");
    }

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
}
