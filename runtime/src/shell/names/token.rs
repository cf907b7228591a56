//! The tokens of a type as the compiler prints it.

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier, keyword or number.
    Word,
    /// `::`.
    Colons,
    /// `<…>`, with everything inside.
    Angles,
    /// `(…)`, `[…]` or `{…}`, with everything inside.
    Group,
    /// `{{closure}}` and other names that the compiler invents.
    Invented,
    /// Text that no path contains. A bracket without its partner takes all text behind it.
    Between,
}

/// The first token of `text`. `None` if there is no text.
pub(super) fn token(text: &str) -> Option<(Kind, &str)> {
    let first = *text.as_bytes().first()?;
    let (kind, length) = match first {
        b'<' | b'(' | b'[' | b'{' => bracketed(text),
        b':' if text.starts_with("::") => (Kind::Colons, 2),
        b'&' if text.starts_with("&'_ ") => (Kind::Between, "&'_ ".len()),
        b'\'' => (Kind::Between, quoted(text)),
        _ if is_delimiter(first) => (Kind::Between, 1),
        _ => (
            Kind::Word,
            text.bytes().position(is_delimiter).unwrap_or(text.len()),
        ),
    };
    Some((kind, &text[..length]))
}

/// The text before and after the first `separator` outside of brackets.
pub(super) fn split_top<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix(separator) {
            return Some((&text[..text.len() - rest.len()], after));
        }
        rest = &rest[token(rest)?.1.len()..];
    }
}

/// Only ASCII characters are delimiters, so the bytes of other characters stay together in words.
fn is_delimiter(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'<'
            | b'>'
            | b'('
            | b')'
            | b'['
            | b']'
            | b'{'
            | b'}'
            | b':'
            | b','
            | b';'
            | b'&'
            | b'*'
            | b'+'
            | b'-'
            | b'='
            | b'!'
            | b'\''
    )
}

/// The kind and length of a token that begins with an opening bracket.
fn bracketed(text: &str) -> (Kind, usize) {
    let (kind, close) = match text.as_bytes()[0] {
        b'<' => (Kind::Angles, b'>'),
        b'(' => (Kind::Group, b')'),
        b'[' => (Kind::Group, b']'),
        _ if text.starts_with("{{") => (Kind::Invented, b'}'),
        _ => (Kind::Group, b'}'),
    };
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if *byte == close {
                (kind, at + 1)
            } else {
                (Kind::Between, text.len())
            };
        }
        at += match byte {
            b'\'' => quoted(&text[at..]),
            b'-' if text[at..].starts_with("->") => 2,
            _ => 1,
        };
    }
    (Kind::Between, text.len())
}

/// Length of a token that begins with a quote: a character such as `'<'`, or only the quote of a lifetime. It
/// is right for escaped characters too, because no escape holds a bracket without its partner.
fn quoted(text: &str) -> usize {
    match text.char_indices().nth(2) {
        Some((at, '\'')) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(mut text: &str) -> Vec<(Kind, &str)> {
        let mut all = Vec::new();
        while let Some(next) = token(text) {
            text = &text[next.1.len()..];
            all.push(next);
        }
        all
    }

    #[test]
    fn pieces() {
        use Kind::{Angles, Between, Colons, Group, Invented, Word};
        assert_eq!(
            tokens("a::T<u8, fn(u8) -> u8>::{{closure}}(x){y}"),
            [
                (Word, "a"),
                (Colons, "::"),
                (Word, "T"),
                (Angles, "<u8, fn(u8) -> u8>"),
                (Colons, "::"),
                (Invented, "{{closure}}"),
                (Group, "(x)"),
                (Group, "{y}"),
            ]
        );
        assert_eq!(
            tokens("&'_ é:*'a "),
            [
                (Between, "&'_ "),
                (Word, "é"),
                (Between, ":"),
                (Between, "*"),
                (Between, "'"),
                (Word, "a"),
                (Between, " "),
            ]
        );
    }

    #[test]
    fn brackets_in_quotes_are_no_brackets() {
        for text in [
            "<'<'>",
            "<'>'>",
            r"<'\''>",
            r"<'\\'>",
            r"<'\u{1f}'>",
            "<'a, '>'>",
            "<'é'>",
        ] {
            assert_eq!(token(text), Some((Kind::Angles, text)));
        }
    }

    #[test]
    fn brackets_without_their_partner_take_the_rest() {
        for text in ["<a", "(a::b", "<a)", "{{a}", "[<]>", "<'", r"<'\", "<->"] {
            assert_eq!(token(text), Some((Kind::Between, text)));
        }
        assert_eq!(token(">a"), Some((Kind::Between, ">")));
        assert_eq!(token(""), None);
    }

    #[test]
    fn separators_in_brackets_do_not_count() {
        assert_eq!(
            split_top("T<a as b> as c", " as "),
            Some(("T<a as b>", "c"))
        );
        assert_eq!(split_top("a for b for c", " for "), Some(("a", "b for c")));
        assert_eq!(split_top("T<a as b>", " as "), None);
        assert_eq!(split_top("", " as "), None);
    }
}
