//! JSON: texts are written here, byte for byte in the same way for ever. `read` has what `serde_json` lacks for damaged
//! files. Source: RFC 8259.

mod read;

pub(crate) use read::{Bad, int, parse};

/// Appends a text with its quotes.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(size) = rest
        .iter()
        .position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')
    {
        let (plain, tail) = rest.split_at(size);
        out.extend_from_slice(plain);
        match tail[0] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &tail[1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let mut out = Vec::new();
        push_text(&mut out, "\0\u{1}\u{8}\n\t\r\"\\/ Größe \u{7f}\u{2028}😀");
        let text = String::from_utf8(out).expect("UTF-8");
        let wanted = "\"\\u0000\\u0001\\u0008\\n\\t\\r\\\"\\\\/ Größe \u{7f}\u{2028}😀\"";
        assert_eq!(text, wanted);
    }
}
