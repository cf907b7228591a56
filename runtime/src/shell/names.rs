//! Readable names of functions. They come from the compiler's path of a type that the expansion declares inside the
//! function. A part that it does not understand stays as it is.

mod token;

use fdr_formats::filter::nearest;
use fdr_formats::text;

use token::{Kind, split_top, token};

/// The name of the type that every expansion declares.
const MARKER: &str = "::__FdrHere";

/// The deepest nesting of types that is rewritten. Deeper parts are copied.
const DEEPEST: u32 = 64;

/// The readable name of the function whose marker type has this path.
///
/// | compiler | readable |
/// | --- | --- |
/// | `a::f::{{closure}}::__FdrHere` | `a::f` |
/// | `a::T<_>::m::__FdrHere` | `a::T::m` |
/// | `<a::T<_> as a::Tr<u8>>::m::__FdrHere` | `<a::T as a::Tr<u8>>::m` |
/// | `a::b::<impl a::T>::m::__FdrHere` | `a::T::m` |
/// | `a::b::<impl a::Tr for u8>::m::__FdrHere` | `<u8 as a::Tr>::m` |
///
/// Segments that are not in the source are left out: closures, and constants without a name. The lifetime in `&'_ T` is
/// left out too. So are argument lists that only repeat the parameters of a generic item. Two closures of one function
/// get the same name. `T<u8>::m` and `T<u16>::m` get different names.
pub(crate) fn person_name(path: &str) -> String {
    let path = path.strip_suffix(MARKER).unwrap_or(path);
    let mut writer = Writer {
        out: String::with_capacity(path.len()),
        depth: 0,
    };
    writer.write(path);
    writer.out
}

struct Writer {
    out: String,
    depth: u32,
}

impl Writer {
    /// Appends `text`: paths, and the text between them in a type.
    fn write(&mut self, text: &str) {
        self.depth += 1;
        if self.depth > DEEPEST {
            self.out.push_str(text);
        } else {
            self.write_tokens(text);
        }
        self.depth -= 1;
    }

    fn write_tokens(&mut self, mut rest: &str) {
        // The beginning of the current path.
        let mut start = self.out.len();
        while let Some((kind, text)) = token(rest) {
            rest = &rest[text.len()..];
            match kind {
                // The `_` of `const _: () = { … }`. An `_` that is alone is a type.
                Kind::Word if text == "_" && self.out.len() > start => self.drop_colons(),
                Kind::Word => self.out.push_str(text.strip_prefix("r#").unwrap_or(text)),
                // If the first segment was left out, nothing is before the `::`.
                Kind::Colons if self.out.len() == start => {}
                Kind::Colons => self.out.push_str(text),
                Kind::Invented if self.out.len() > start => self.drop_colons(),
                Kind::Invented => {}
                Kind::Angles => self.write_angles(inside(text), start),
                Kind::Group => {
                    self.out.push_str(&text[..1]);
                    self.write(inside(text));
                    self.out.push_str(&text[text.len() - 1..]);
                }
                Kind::Between => {
                    self.out.push_str(if text == "&'_ " { "&" } else { text });
                    start = self.out.len();
                }
            }
        }
    }

    /// Removes the `::` of a segment that is left out.
    fn drop_colons(&mut self) {
        if self.out.ends_with("::") {
            self.out.truncate(self.out.len() - 2);
        }
    }

    /// Appends `<…>`. It is a segment at the beginning of a path and after `::`, otherwise a list of arguments.
    fn write_angles(&mut self, inner: &str, start: usize) {
        let is_segment = self.out.len() == start || self.out.ends_with("::");
        if !is_segment && repeats_parameters(inner) {
            return;
        }
        let implemented = inner.strip_prefix("impl ").filter(|_| is_segment);
        let qualified = || split_top(inner, " as ").filter(|_| is_segment);
        if let Some(what) = implemented {
            // The place of an impl is left out, because its type says more.
            self.out.truncate(start);
            match split_top(what, " for ") {
                Some((the_trait, the_type)) => self.write_qualified(the_type, the_trait),
                None => self.write(what),
            }
        } else if let Some((the_type, the_trait)) = qualified() {
            self.write_qualified(the_type, the_trait);
        } else {
            self.out.push('<');
            self.write(inner);
            self.out.push('>');
        }
    }

    fn write_qualified(&mut self, the_type: &str, the_trait: &str) {
        self.out.push('<');
        self.write(the_type);
        self.out.push_str(" as ");
        self.write(the_trait);
        self.out.push('>');
    }
}

/// A bracketed token without its brackets.
fn inside(text: &str) -> &str {
    &text[1..text.len() - 1]
}

/// Whether a list of arguments only repeats the item's own parameters: `_` for a type, `'_` for a lifetime, its
/// name for a constant.
fn repeats_parameters(list: &str) -> bool {
    text::parts(list, b',').map(text::trimmed).all(|argument| {
        matches!(argument, "_" | "'_") || (is_word(argument) && !is_value_or_primitive(argument))
    })
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .chars()
            .all(|c| c == '_' || c.is_ascii_alphanumeric() || !c.is_ascii())
}

/// Whether a word without `::` is a type or constant. Every other such word is a parameter.
fn is_value_or_primitive(word: &str) -> bool {
    let number = |kind: &[u8]| matches!(kind, b"8" | b"16" | b"32" | b"64" | b"128" | b"size");
    match word.as_bytes() {
        b"bool" | b"char" | b"str" | b"true" | b"false" => true,
        [b'u' | b'i' | b'f', kind @ ..] => number(kind),
        _ => false,
    }
}

/// The names that are closest to a glob.
pub(super) fn nearest_in_words(names: &[&str], glob: &str) -> String {
    let mut words = String::new();
    for name in nearest(names, glob, 3) {
        text::append(&mut words, ", ", name);
    }
    words
}

#[cfg(test)]
mod tests;
