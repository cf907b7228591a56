//! Reads JSON by `serde_json`, as far as it is intact: a list gives one element after the other, and each error and each
//! element has a byte offset. `serde_json` nests no deeper than 128 levels, and allocates only what it has read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// Byte offset in the text.
    pub(crate) offset: u64,
    /// What is wrong.
    pub(crate) what: String,
}

/// Bytes as text. In damaged names, each byte that is no UTF-8 becomes a question mark, so that offsets stay.
pub(crate) fn text_of_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    Cow::Owned(text)
}

/// Hands a whole text to `seed`.
pub(crate) fn parse<'de, S: DeserializeSeed<'de>>(
    text: &'de str,
    seed: S,
) -> Result<S::Value, Bad> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = seed.deserialize(&mut reader);
    let read = read.and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| bad(text, &error))
}

/// An error of `serde_json` with an offset, in place of line and column.
fn bad(text: &str, error: &serde_json::Error) -> Bad {
    let lines = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1));
    // A column is from 1 for a byte that is there. At the end, it is the number of bytes.
    let column = error.column().saturating_sub(usize::from(!error.is_eof()));
    let offset = lines.map(str::len).sum::<usize>() + column;
    Bad {
        offset: offset as u64,
        what: without_place(error),
    }
}

fn without_place(error: &serde_json::Error) -> String {
    let mut what = error.to_string();
    if let Some(end) = what.rfind(" at line ") {
        what.truncate(end);
    }
    what
}

/// The offset of a part of a text. Another text is at the beginning.
pub(crate) fn offset_in(text: &str, part: &str) -> u64 {
    (part.as_ptr() as usize)
        .checked_sub(text.as_ptr() as usize)
        .filter(|&offset| offset <= text.len())
        .unwrap_or(0) as u64
}

/// A whole number, where it fits.
pub(crate) fn int<T: TryFrom<i128>>(value: &Value) -> Option<T> {
    let signed = value.as_i64().map(i128::from);
    let number = signed.or_else(|| value.as_u64().map(i128::from))?;
    T::try_from(number).ok()
}

/// Hands the elements of a list over, each with its offset in the text.
pub(crate) struct Each<'t, F> {
    text: &'t str,
    expected: &'static str,
    take: F,
}

/// See [`Each`]. `expected` is for an error.
pub(crate) fn each<'t, F>(text: &'t str, expected: &'static str, take: F) -> Each<'t, F> {
    Each {
        text,
        expected,
        take,
    }
}

impl<'de, F: FnMut(u64, Value)> DeserializeSeed<'de> for Each<'de, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(u64, Value)> Visitor<'de> for Each<'de, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element::<&RawValue>()? {
            let element = element.get();
            let value = serde_json::from_str(element);
            let value = value.map_err(|error| A::Error::custom(without_place(&error)))?;
            (self.take)(offset_in(self.text, element), value);
        }
        Ok(())
    }
}

/// The name of a member: a part of the text, unless it has escapes.
pub(crate) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(text: &str) -> (Vec<(u64, Value)>, Option<Bad>) {
        let mut all = Vec::new();
        let take = |offset, value| all.push((offset, value));
        let damage = parse(text, each(text, "a list", take)).err();
        (all, damage)
    }

    #[test]
    fn elements_before_the_damage_are_kept() {
        let (all, damage) = elements("[ 1, {\"a\":[]},\n\"x\" ]");
        let offsets: Vec<u64> = all.iter().map(|(offset, _)| *offset).collect();
        assert_eq!((offsets, damage), (vec![2, 5, 15], None));
        for (text, count, offset, what) in [
            ("", 0, 0, "EOF while parsing a value"),
            ("[1", 1, 2, "EOF while parsing a list"),
            ("[1,\n2 3]", 2, 6, "expected `,` or `]`"),
            ("[1]]", 1, 3, "trailing characters"),
            ("{}", 0, 0, "invalid type: map, expected a list"),
        ] {
            let (all, damage) = elements(text);
            let damage = damage.expect(text);
            assert_eq!(
                (all.len(), damage.offset, &*damage.what),
                (count, offset, what),
                "{text}"
            );
        }
    }

    #[test]
    fn depth_is_bounded() {
        let (all, damage) = elements(&("[0,".to_owned() + &"[".repeat(1_000_000)));
        assert_eq!(all.len(), 1);
        assert!(damage.is_some());
        let (_, damage) = elements(&("[".repeat(200) + &"]".repeat(200)));
        let what = damage.expect("too deep").what;
        assert!(what.contains("recursion limit"), "{what}");
    }

    #[test]
    fn numbers_fit_or_are_none() {
        let (all, _) = elements("[18446744073709551615,-9223372036854775808,1.5]");
        assert_eq!(int::<u64>(&all[0].1), Some(u64::MAX));
        assert_eq!(int::<i64>(&all[0].1), None);
        assert_eq!(int::<i64>(&all[1].1), Some(i64::MIN));
        assert_eq!(int::<i64>(&all[2].1), None);
    }

    #[test]
    fn damaged_text_keeps_its_length() {
        assert_eq!(text_of_bytes(b"a\xffb\xe2\x82"), "a?b??");
    }
}
