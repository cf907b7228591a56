//! Makes text that others chose (names of functions, threads, programs, files) fit for a terminal and for lines.

use std::borrow::Cow;

/// Whether a character may change more than its own place on the screen. Control characters do (escapes
/// begin with one), and characters that change the direction of writing or are invisible.
#[must_use]
#[inline(never)]
pub fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // A soft hyphen, a joiner, letters without a shape.
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
            // No width, ends of lines, directions.
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            // Variants of shapes, byte order, annotations.
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            // Tags, and more variants.
            | '\u{e0000}'..='\u{e0fff}')
}

/// Text that is safe to show: an unsafe character is written as `\n` or `\u{1b}`.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_unsafe(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// The path of a source file, relative to its crate. The compiler gives paths of the machine that built the program,
/// and readers of a trace don't need these. For a crate of crates.io the path keeps the name of its folder, which is
/// its name and version. For the standard library it keeps the name of the crate. A relative path stays as it is.
///
/// # Examples
/// ```
/// use fdr_formats::text::path_in_crate;
///
/// assert_eq!(path_in_crate("/builds/ann/project/src/main.rs"), "src/main.rs");
/// assert_eq!(path_in_crate("src/main.rs"), "src/main.rs");
/// ```
#[must_use]
pub const fn path_in_crate(path: &str) -> &str {
    let whole = path.as_bytes();
    let [b'/', ..] = whole else { return path };
    // The rest of the path, from the present position, from the present name, and from the name before it.
    let (mut rest, mut name, mut folder) = (whole, whole, whole);
    let (mut found, mut is_public) = (None, false);
    while let [byte, behind @ ..] = rest {
        if *byte == b'/' {
            let (word, _) = name.split_at(name.len() - rest.len());
            match word {
                b"rustc" | b"rustlib" | [b'i', b'n', b'd', b'e', b'x', b'.', ..] => {
                    is_public = true
                }
                b"src" | b"tests" | b"examples" | b"benches" => {
                    found = Some(if is_public { folder } else { name });
                }
                _ => {}
            }
            (folder, name) = (name, behind);
        }
        rest = behind;
    }
    let kept = match found {
        Some(kept) => kept,
        None => name,
    };
    match core::str::from_utf8(kept) {
        Ok(kept) => kept,
        // It begins behind a slash, so it is text.
        Err(_) => "",
    }
}

/// Whether two words are the same, if upper and lower case of ASCII letters do not count.
#[must_use]
#[inline(never)]
pub fn same_word(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Copies a text. Std's function for this is compiled anew at each call, and there are many messages.
#[must_use]
#[inline(never)]
pub fn owned(text: &str) -> String {
    text.to_owned()
}

/// A text without the blanks around it.
#[must_use]
#[inline(never)]
pub fn trimmed(text: &str) -> &str {
    text.trim_ascii()
}

/// The parts of a text between `separator`, an ASCII character. Std's iterators for this are compiled anew at each use.
#[must_use]
pub fn parts(text: &str, separator: u8) -> Parts<'_> {
    Parts {
        rest: Some(text),
        separator,
    }
}

/// The parts of a text: see [`parts`].
#[derive(Debug)]
pub struct Parts<'a> {
    /// The parts that were not taken. `None` behind the last one.
    rest: Option<&'a str>,
    separator: u8,
}

impl<'a> Parts<'a> {
    /// The text behind the parts that were taken. `None` behind the last one.
    #[must_use]
    pub fn rest(&self) -> Option<&'a str> {
        self.rest
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    #[inline(never)]
    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.take()?;
        let end = text.bytes().position(|byte| byte == self.separator);
        let Some(end) = end else {
            return Some(text);
        };
        self.rest = text.get(end + 1..);
        text.get(..end)
    }
}

/// A text with spaces in the place of its line breaks.
#[must_use]
#[inline(never)]
pub fn on_one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// Adds a word to a list in words, with `between` before it unless the list is empty.
#[inline(never)]
pub fn append(list: &mut String, between: &str, word: &str) {
    if !list.is_empty() {
        list.push_str(between);
    }
    list.push_str(word);
}

/// The decimal number that a text is.
#[must_use]
#[inline(never)]
pub fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

/// The longest beginning of a text that fits in `most` bytes, cut between two characters.
#[must_use]
#[inline(never)]
pub fn cut(text: &str, most: usize) -> &str {
    // A character has at most four bytes, so one of these places is between two characters.
    let ends = (0..4).map(|back| most.min(text.len()).saturating_sub(back));
    ends.filter_map(|end| text.get(..end)).next().unwrap_or("")
}

/// The longest end of a text that fits in `most` bytes, cut between two characters.
#[must_use]
pub fn last(text: &str, most: usize) -> &str {
    let starts = (0..4).map(|ahead| text.len().saturating_sub(most) + ahead);
    starts
        .filter_map(|start| text.get(start..))
        .next()
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_within_the_crate() {
        for (path, within) in [
            ("src/main.rs", "src/main.rs"),
            ("", ""),
            ("../other/src/lib.rs", "../other/src/lib.rs"),
            ("/builds/ann/project/src/main.rs", "src/main.rs"),
            ("/builds/ann/src/project/tests/it.rs", "tests/it.rs"),
            ("/builds/ann/project/examples/one/src/lib.rs", "src/lib.rs"),
            ("/builds/ann/project/build.rs", "build.rs"),
            ("/builds/ann/target/debug/build/x-1/out/made.rs", "made.rs"),
            ("/main.rs", "main.rs"),
            ("/src/main.rs", "src/main.rs"),
            ("/", ""),
            ("/builds/änn/src/ä.rs", "src/ä.rs"),
            (
                "/opt/cargo/registry/src/index.example-1949cf8c6b5b557f/serde-1.0.2/src/de/mod.rs",
                "serde-1.0.2/src/de/mod.rs",
            ),
            (
                "/rustc/29483883eed69d5fb4db01964cdf2af4d86e9cb2/library/core/src/option.rs",
                "core/src/option.rs",
            ),
            (
                "/opt/rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/sync/mpsc.rs",
                "std/src/sync/mpsc.rs",
            ),
        ] {
            assert_eq!(path_in_crate(path), within, "{path}");
        }
        // At compile time, too.
        const WITHIN: &str = path_in_crate("/builds/ann/project/src/main.rs");
        assert_eq!(WITHIN, "src/main.rs");
    }

    #[test]
    fn hostile_text_is_harmless() {
        assert_eq!(clean("<Vec<T> as Größe>::m"), "<Vec<T> as Größe>::m");
        assert_eq!(clean("a\x1b[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(clean("\u{9b}2J\u{7f}"), "\\u{9b}2J\\u{7f}");
        assert_eq!(clean("safe\u{202e}txt"), "safe\\u{202e}txt");
        assert_eq!(clean("run\u{e0041}\u{ad}"), "run\\u{e0041}\\u{ad}");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let text = "aß関🦀";
        let cuts = [0, 1, 2, 3, 5, 6, 9, 10, 99].map(|most| cut(text, most));
        assert_eq!(cuts, ["", "a", "a", "aß", "aß", "aß関", "aß関", text, text]);
        let lasts = [0, 3, 4, 6, 7, 9, 10, 99].map(|most| last(text, most));
        assert_eq!(lasts, ["", "", "🦀", "🦀", "関🦀", "ß関🦀", text, text]);
        assert_eq!((cut("", 3), last("", 3)), ("", ""));
    }

    #[test]
    fn parts_are_what_std_splits() {
        for text in ["", ",", "a", "a,b", ",ß,,関", "a,b,"] {
            let std: Vec<&str> = text.split(',').collect();
            assert_eq!(parts(text, b',').collect::<Vec<_>>(), std);
        }
        let mut parts = parts("a b c ", b' ');
        assert_eq!((parts.next(), parts.rest()), (Some("a"), Some("b c ")));
        assert_eq!((parts.nth(2), parts.rest()), (Some(""), None));
        assert_eq!(parts.next(), None);
    }

    #[test]
    fn words_make_a_list() {
        let mut list = String::new();
        for (word, wanted) in [("a", "a"), ("bc", "a, bc"), ("", "a, bc, ")] {
            append(&mut list, ", ", word);
            assert_eq!(list, wanted);
        }
    }

    #[test]
    fn letters_of_all_scripts_are_left_alone() {
        let text = "функция 関数 함수 פונקציה دالة ώ ñ 🦀 a\u{301}";
        assert_eq!(clean(text), text);
        assert!(matches!(clean(text), Cow::Borrowed(_)));
    }
}
