//! JSON within bounds: a reader that gives one token after the other, and the writing of texts.
//!
//! The reader never calls itself, nests no deeper than [`MAX_DEPTH`], and allocates only the bytes of a
//! text. It must never panic: each error has a byte offset. Source: RFC 8259.

use std::borrow::Cow;

/// The deepest nesting of objects and lists. Deeper nesting is an error.
pub(crate) const MAX_DEPTH: usize = 512;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// Byte offset in the text.
    pub(crate) offset: u64,
    /// What is wrong.
    pub(crate) what: &'static str,
}

/// The next piece of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// `{`
    Object,
    /// `[`
    List,
    /// `}` or `]`
    Close,
    /// The name of an object's member; its value comes next.
    Key(Cow<'a, str>),
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Cow<'a, str>),
    /// The text is over, and was whole.
    End,
}

/// A value, whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    /// The members in the order of the text. Of two members with one name, the first counts.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// A member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        let Value::Object(members) = self else {
            return None;
        };
        let found = members.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number, where it fits.
    pub(crate) fn int<T: TryFrom<i128>>(&self) -> Option<T> {
        match self {
            Value::Int(number) => T::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(crate) fn float(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> &[Value] {
        match self {
            Value::List(values) => values,
            _ => &[],
        }
    }
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Value,
    /// After `[`: a value or the end.
    FirstValue,
    /// After `{`: a name or the end.
    FirstKey,
    /// After a value: a comma or the end.
    Next,
}

/// Reads one text.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// For each open container, whether it is an object.
    open: Vec<bool>,
    expect: Expect,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            bytes,
            at: 0,
            open: Vec::new(),
            expect: Expect::Value,
        }
    }

    /// Where the next token is looked for.
    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    fn bad(&self, what: &'static str) -> Bad {
        let offset = self.at as u64;
        Bad { offset, what }
    }

    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// The next token. After [`Token::End`] the reader stays at the end. After an error, the only
    /// promise is that it ends.
    pub(crate) fn next(&mut self) -> Result<Token<'a>, Bad> {
        if self.expect == Expect::Next {
            let Some(&object) = self.open.last() else {
                return match self.peek() {
                    None => Ok(Token::End),
                    Some(_) => Err(self.bad("something follows the end")),
                };
            };
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') if object => return Ok(self.close()),
                Some(b']') if !object => return Ok(self.close()),
                None => return Err(self.bad("it ends too early")),
                Some(_) => return Err(self.bad("a comma or the end of a list is missing")),
            }
            return if object {
                self.key()
            } else {
                self.value_token()
            };
        }
        match (self.expect, self.peek()) {
            (Expect::FirstValue, Some(b']')) | (Expect::FirstKey, Some(b'}')) => Ok(self.close()),
            (Expect::FirstKey, _) => self.key(),
            _ => self.value_token(),
        }
    }

    fn close<'b>(&mut self) -> Token<'b> {
        self.at += 1;
        self.open.pop();
        self.expect = Expect::Next;
        Token::Close
    }

    fn key(&mut self) -> Result<Token<'a>, Bad> {
        match self.peek() {
            Some(b'"') => {}
            None => return Err(self.bad("it ends too early")),
            Some(_) => return Err(self.bad("a member's name is missing")),
        }
        let key = self.string()?;
        if self.peek() != Some(b':') {
            return Err(self.bad("a colon is missing"));
        }
        self.at += 1;
        self.expect = Expect::Value;
        Ok(Token::Key(key))
    }

    fn value_token(&mut self) -> Result<Token<'a>, Bad> {
        let first = self.peek();
        let token = match first {
            Some(b'{' | b'[') => {
                if self.open.len() >= MAX_DEPTH {
                    return Err(self.bad("it is nested too deeply"));
                }
                let object = first == Some(b'{');
                self.at += 1;
                self.open.push(object);
                self.expect = if object {
                    Expect::FirstKey
                } else {
                    Expect::FirstValue
                };
                return Ok(if object { Token::Object } else { Token::List });
            }
            Some(b'"') => Token::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Token::Bool(true))?,
            Some(b'f') => self.word("false", Token::Bool(false))?,
            Some(b'n') => self.word("null", Token::Null)?,
            Some(_) => return Err(self.bad("no value begins like this")),
            None => return Err(self.bad("it ends too early")),
        };
        self.expect = Expect::Next;
        Ok(token)
    }

    fn word(&mut self, word: &str, token: Token<'a>) -> Result<Token<'a>, Bad> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        if !rest.starts_with(word.as_bytes()) {
            return Err(self.bad("no value begins like this"));
        }
        self.at += word.len();
        Ok(token)
    }

    fn number(&mut self) -> Result<Token<'a>, Bad> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let fits = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let size = rest.iter().position(|byte| !fits(byte));
        let text = rest.get(..size.unwrap_or(rest.len())).unwrap_or(&[]);
        let text = std::str::from_utf8(text).unwrap_or("");
        let token = match (text.parse(), text.parse()) {
            (Ok(int), _) => Token::Int(int),
            (Err(_), Ok(float)) => Token::Float(float),
            (Err(_), Err(_)) => return Err(self.bad("it is no number")),
        };
        self.at += text.len();
        Ok(token)
    }

    /// A text from its opening quote on.
    fn string(&mut self) -> Result<Cow<'a, str>, Bad> {
        let mut owned: Option<String> = None;
        let mut from = self.at + 1;
        loop {
            let rest = self.bytes.get(from..).unwrap_or(&[]);
            let size = rest
                .iter()
                .position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ');
            let Some(size) = size else {
                self.at = self.bytes.len();
                return Err(self.bad("a text has no end"));
            };
            let piece = String::from_utf8_lossy(&rest[..size]);
            match rest[size] {
                b'"' => {
                    self.at = from + size + 1;
                    return Ok(match owned {
                        None => piece,
                        Some(before) => Cow::Owned(before + &piece),
                    });
                }
                b'\\' => {
                    let text = owned.get_or_insert_default();
                    text.push_str(&piece);
                    self.at = from + size + 1;
                    let escaped = self.escaped()?;
                    text.push(escaped);
                    from = self.at;
                }
                _ => {
                    self.at = from + size;
                    return Err(self.bad("a control character in a text"));
                }
            }
        }
    }

    /// The character after a backslash.
    fn escaped(&mut self) -> Result<char, Bad> {
        let escape = self.bytes.get(self.at).copied();
        let character = match escape {
            Some(b'"' | b'\\' | b'/') => char::from(escape.unwrap_or_default()),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.utf16();
            }
            _ => return Err(self.bad("an escape that JSON does not have")),
        };
        self.at += 1;
        Ok(character)
    }

    /// Four digits. For a character above 16 bits, four digits, another `\u` and four digits. A lone
    /// half of a pair becomes U+FFFD.
    fn utf16(&mut self) -> Result<char, Bad> {
        let first = self
            .digits(self.at)
            .ok_or_else(|| self.bad("no four hexadecimal digits"))?;
        self.at += 4;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        let pair = self.bytes.get(self.at..self.at + 2) == Some(b"\\u");
        let second = self
            .digits(self.at + 2)
            .filter(|second| pair && (0xdc00..0xe000).contains(second));
        match second {
            Some(second) if first < 0xdc00 => {
                self.at += 6;
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            _ => Ok(char::REPLACEMENT_CHARACTER),
        }
    }

    fn digits(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at.checked_add(4)?)?;
        let digits = std::str::from_utf8(digits).ok()?;
        digits
            .bytes()
            .all(|digit| digit.is_ascii_hexdigit())
            .then_some(())?;
        u32::from_str_radix(digits, 16).ok()
    }

    /// The whole next value. `None`: the open container ends instead.
    pub(crate) fn value(&mut self) -> Result<Option<Value>, Bad> {
        // The containers in work, each with the name of its next member.
        let mut open: Vec<(Value, String)> = Vec::new();
        loop {
            let value = match self.next()? {
                Token::Object => {
                    open.push((Value::Object(Vec::new()), String::new()));
                    continue;
                }
                Token::List => {
                    open.push((Value::List(Vec::new()), String::new()));
                    continue;
                }
                Token::Key(name) => {
                    match open.last_mut() {
                        Some((_, next)) => *next = name.into_owned(),
                        None => return Err(self.bad("a name where a value should be")),
                    }
                    continue;
                }
                Token::Close => match open.pop() {
                    Some((value, _)) => value,
                    None => return Ok(None),
                },
                Token::End => return Ok(None),
                Token::Null => Value::Null,
                Token::Bool(value) => Value::Bool(value),
                Token::Int(value) => Value::Int(value),
                Token::Float(value) => Value::Float(value),
                Token::Text(text) => Value::Text(text.into_owned()),
            };
            match open.last_mut() {
                None => return Ok(Some(value)),
                Some((Value::List(values), _)) => values.push(value),
                Some((Value::Object(members), name)) => members.push((std::mem::take(name), value)),
                Some(_) => {}
            }
        }
    }
}

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

    fn whole(text: &str) -> Result<Value, Bad> {
        let mut reader = Reader::new(text.as_bytes());
        let value = reader.value()?;
        assert_eq!(reader.next()?, Token::End);
        Ok(value.expect("a value"))
    }

    #[test]
    fn values_of_every_kind() {
        let text = r#" {"a" : [1, -2.5, true , null, {}, []], "b":{"c":"x"}, "a": 3} "#;
        let value = whole(text).expect("JSON");
        let list = value.get("a").expect("a").list();
        let kinds = [
            Value::Int(1),
            Value::Float(-2.5),
            Value::Bool(true),
            Value::Null,
        ];
        assert_eq!(list[..4], kinds);
        assert_eq!(list[4..], [Value::Object(vec![]), Value::List(vec![])]);
        assert_eq!(value.get("b").and_then(|b| b.get("c")?.text()), Some("x"));
        let large = whole("[18446744073709551615, -9223372036854775808, 1e400]").expect("JSON");
        assert_eq!(large.list()[0].int::<u64>(), Some(u64::MAX));
        assert_eq!(large.list()[1].int::<i64>(), Some(i64::MIN));
        assert_eq!(large.list()[0].int::<i64>(), None);
    }

    #[test]
    fn texts_come_back() {
        let odd = "\0\u{1}\n\t\r\"\\/ Größe \u{7f}\u{2028}😀";
        let mut out = Vec::new();
        push_text(&mut out, odd);
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.contains(r#"\u0000\u0001\n\t\r\"\\/ Größe"#), "{text}");
        assert_eq!(whole(&text), Ok(Value::Text(odd.into())));
        let escapes = r#""\u0041\/\b\f\ud83d\ude00 \ud83d \ude00\ud83dx""#;
        let wanted = "A/\u{8}\u{c}😀 \u{fffd} \u{fffd}\u{fffd}x";
        assert_eq!(whole(escapes), Ok(Value::Text(wanted.into())));
    }

    #[test]
    fn errors_have_a_place() {
        let cases = [
            ("", 0, "it ends too early"),
            ("[1", 2, "it ends too early"),
            ("[1}", 2, "a comma or the end of a list is missing"),
            ("[1,]", 3, "no value begins like this"),
            ("{\"a\" 1}", 5, "a colon is missing"),
            ("{1:2}", 1, "a member's name is missing"),
            ("[nul]", 1, "no value begins like this"),
            ("[1-2]", 1, "it is no number"),
            ("\"abc", 4, "a text has no end"),
            ("\"a\nc\"", 2, "a control character in a text"),
            ("\"\\x\"", 2, "an escape that JSON does not have"),
            ("\"\\u12g4\"", 3, "no four hexadecimal digits"),
            ("1 2", 2, "something follows the end"),
        ];
        for (text, offset, what) in cases {
            let mut reader = Reader::new(text.as_bytes());
            let end = loop {
                match reader.next() {
                    Ok(Token::End) => panic!("{text:?} is no JSON"),
                    Ok(_) => {}
                    Err(bad) => break bad,
                }
            };
            assert_eq!(end, Bad { offset, what }, "{text:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let fits = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert!(whole(&fits).is_ok());
        let deep = "[".repeat(1_000_000);
        let bad = whole(&deep).expect_err("too deep");
        assert_eq!(
            (bad.offset, bad.what),
            (MAX_DEPTH as u64, "it is nested too deeply")
        );
    }
}
