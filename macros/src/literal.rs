//! The values of literals in the options. The compiler has judged a literal before the macro sees it, so this file
//! must only tell apart what the options take and what they do not take.

use proc_macro2::Literal;

/// The text that a string literal stands for. Nothing for any other literal.
pub(crate) fn text_of(literal: &Literal) -> Option<String> {
    let written = literal.to_string();
    match written.strip_prefix('r') {
        Some(raw) => between_quotes(raw.trim_matches('#')).map(str::to_owned),
        None => unescaped(between_quotes(&written)?),
    }
}

/// A number without a sign, written in decimal digits.
pub(crate) fn count_of(literal: &Literal) -> Option<usize> {
    let digits = literal.to_string().replace('_', "");
    digits.strip_suffix("usize").unwrap_or(&digits).parse().ok()
}

fn between_quotes(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

fn unescaped(written: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = written.chars();
    while let Some(char) = rest.next() {
        if char != '\\' {
            text.push(char);
            continue;
        }
        text.push(match rest.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            'x' => numbered(rest.by_ref().take(2))?,
            'u' => {
                let inside = rest.by_ref().skip(1).take_while(|&char| char != '}');
                numbered(inside.filter(|&char| char != '_'))?
            }
            // A line that goes on, without the space at the next one's beginning.
            '\n' => {
                rest = rest.as_str().trim_start().chars();
                continue;
            }
            quoted => quoted,
        });
    }
    Some(text)
}

/// The character of a number in hexadecimal digits.
fn numbered(digits: impl Iterator<Item = char>) -> Option<char> {
    let digits: String = digits.collect();
    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Literal {
        text.parse().expect("a literal")
    }

    #[test]
    fn texts_in_every_form() {
        for (written, text) in [
            (r#""""#, ""),
            (r#""a::b""#, "a::b"),
            (r#""\"\\\'\n\r\t\0""#, "\"\\'\n\r\t\0"),
            (r#""\x41\u{e9}\u{1_F6_00}z""#, "A\u{e9}\u{1F600}z"),
            ("\"a\\\n   b\"", "ab"),
            (r##"r"a\n""##, r"a\n"),
            (r###"r#"a"#"###, "a"),
            (r###"r##"#"#"##"###, "#\"#"),
        ] {
            assert_eq!(
                text_of(&literal(written)).as_deref(),
                Some(text),
                "{written}"
            );
        }
        for other in [
            "3",
            "'a'",
            "b\"a\"",
            "c\"a\"",
            "br\"a\"",
            "1.5",
            "\"a\"suffix",
        ] {
            assert_eq!(text_of(&literal(other)), None, "{other}");
        }
    }

    #[test]
    fn counts() {
        for (written, count) in [("0", 0), ("5", 5), ("1_000", 1000), ("7usize", 7)] {
            assert_eq!(count_of(&literal(written)), Some(count), "{written}");
        }
        for other in ["1.5", "\"5\"", "99999999999999999999999", "5u8x", "'5'"] {
            assert_eq!(count_of(&literal(other)), None, "{other}");
        }
    }
}
