//! Turns metadata text into words, numbers, quoted texts and signs, one at a time, each with its line.

/// A piece of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Letters, digits, `_`; not beginning with a digit.
    Word(&'a str),
    /// A number without sign.
    Number(u64),
    /// The text between quotes, escapes resolved.
    Text(String),
    /// `:=`, `...`, `->`, `::` or a single sign.
    Sign(&'a str),
    /// The end.
    End,
}

/// The description of a character that begins no token.
pub(super) type Bad = String;

/// Takes tokens off the front.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer {
            text,
            at: 0,
            line: 1,
        }
    }

    /// The line of the last token, from 1.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// Bytes that were taken.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn take(&mut self, count: usize) -> &'a str {
        let taken = self.rest().get(..count).unwrap_or("");
        let lines = taken.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self
            .line
            .saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.at += taken.len();
        taken
    }

    fn skip_blank(&mut self) -> Result<(), Bad> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\0']).len();
            if blank > 0 {
                self.take(blank);
            } else if rest.starts_with("//") {
                self.take(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").ok_or("a comment that does not end")?;
                self.take(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Result<Token<'a>, Bad> {
        self.skip_blank()?;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        let in_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
        if first == '"' {
            return self.quoted();
        }
        if first == '\'' {
            return Err("a character in single quotes, which is not supported".into());
        }
        if in_word(first) {
            let word = rest.find(|char| !in_word(char)).unwrap_or(rest.len());
            let word = self.take(word);
            return if first.is_ascii_digit() {
                number(word).map(Token::Number)
            } else {
                Ok(Token::Word(word))
            };
        }
        let signs = [":=", "...", "->", "::"];
        let sign = signs.iter().find(|sign| rest.starts_with(**sign));
        let size = sign.map_or(first.len_utf8(), |sign| sign.len());
        Ok(Token::Sign(self.take(size)))
    }

    fn quoted(&mut self) -> Result<Token<'a>, Bad> {
        let mut text = String::new();
        let body = self.rest().get(1..).unwrap_or("");
        let mut chars = body.char_indices();
        while let Some((at, char)) = chars.next() {
            match char {
                '"' => {
                    self.take(1 + at + 1);
                    return Ok(Token::Text(text));
                }
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, escape)) => escaped(escape, &mut chars, &mut text)?,
                    None => break,
                },
                char => text.push(char),
            }
        }
        Err("a quoted text that does not end on its line".into())
    }
}

fn escaped(
    escape: char,
    chars: &mut std::str::CharIndices<'_>,
    text: &mut String,
) -> Result<(), Bad> {
    let digits = |chars: &mut std::str::CharIndices<'_>, radix: u32, most: usize, first: u32| {
        let mut value = first;
        for _ in 0..most {
            let Some(digit) = chars
                .as_str()
                .chars()
                .next()
                .and_then(|char| char.to_digit(radix))
            else {
                break;
            };
            value = value * radix + digit;
            chars.next();
        }
        value
    };
    text.push(match escape {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'v' => '\x0b',
        '\\' | '"' | '\'' | '?' => escape,
        'x' => char::from(digits(chars, 16, 2, 0) as u8),
        '0'..='7' => char::from(digits(chars, 8, 2, escape as u32 - '0' as u32) as u8),
        other => return Err(format!("an escape \\{other}, which nobody knows")),
    });
    Ok(())
}

/// Decimal, hexadecimal (`0x`) or octal (`0`), with C's suffixes.
fn number(word: &str) -> Result<u64, Bad> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, radix) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    u64::from_str_radix(digits, radix).map_err(|_| format!("{word:.40} is no number of 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text);
        let next = || match lexer.next().expect("tokens") {
            Token::End => None,
            token => Some(token),
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn words_numbers_texts_and_signs() {
        use Token::{Number, Sign, Text, Word};
        let text = "a_1 := 0x1F ... 017u // end\n/* \n */ \"q\\\"\\x41\\101\\n\" -> [ é ] 18446744073709551615LL";
        let wanted = [
            Word("a_1"),
            Sign(":="),
            Number(31),
            Sign("..."),
            Number(15),
            Text("q\"AA\n".into()),
            Sign("->"),
            Sign("["),
            Sign("é"),
            Sign("]"),
            Number(u64::MAX),
        ];
        assert_eq!(tokens(text), wanted);
    }

    #[test]
    fn what_is_no_token_is_reported() {
        for (text, wanted) in [
            ("/* a", "comment"),
            ("\"a\n\"", "does not end"),
            ("\"a\\", "does not end"),
            ("\"\\q\"", "escape"),
            ("12a", "no number"),
            ("18446744073709551616", "no number"),
            ("'a'", "single quotes"),
        ] {
            let bad = Lexer::new(text).next().expect_err(text);
            assert!(bad.contains(wanted), "{text}: {bad}");
        }
    }
}
