//! The rules for function names, the same in the recorder (`FDR`) and in the tool (`--filter`): a list of
//! globs that includes and excludes, and the names nearest to a glob. Matching must never take more than
//! (length of the name) x (length of the glob) steps.

mod nearest;

use std::str::FromStr;

use crate::text::{self, owned, same_word};

pub use nearest::{near, nearest};

/// A parsed filter, see [`Filter::parse`]. The default is the filter that matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    includes: Vec<String>,
    excludes: Vec<String>,
}

impl Filter {
    /// Whether the text is a word for "nothing". Such a text needs no further look.
    #[must_use]
    pub fn means_off(text: &str) -> bool {
        ["0", "off", "no", "false"]
            .iter()
            .any(|word| same_word(text::trimmed(text), word))
    }

    /// Whether the text is a word for "everything".
    fn means_on(text: &str) -> bool {
        ["1", "on", "yes", "true"]
            .iter()
            .any(|word| same_word(text, word))
    }

    /// Parses the text of `FDR`, of `fdr::set_filter` and of the tool's `--filter`.
    ///
    /// `1`, `on` and `*` stand for every function. `0` and `off` stand for none (also `yes`, `true`,
    /// `no`, `false`, in any case). Any other text is a list of globs separated by commas. `*` is any
    /// run of characters, `?` is one character, and `-` before a glob excludes. An exclude wins over
    /// every include. A list of excludes only means "everything but". A glob is matched with the whole
    /// name. A glob that doesn't begin with `<` is also tried on the part behind the `<` of a name. So
    /// `my_app::*` covers `<my_app::T as Tr>::m`. A glob without `*` and `?` may be the end of a name,
    /// behind any `::` of the name. So `Queue::pop` covers `my_app::queue::Queue::pop`. A comma within a
    /// name is written as `?`.
    ///
    /// # Errors
    /// One line, for people, without the name of the variable or option.
    ///
    /// # Examples
    /// ```
    /// use fdr_formats::filter::Filter;
    ///
    /// let filter = Filter::parse("my_app::*,-my_app::hot::*")?;
    /// assert!(filter.matches("<my_app::T as Tr>::m"));
    /// assert!(!filter.matches("my_app::hot::path"));
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str) -> Result<Filter, String> {
        let mut parts = Vec::new();
        for part in text::parts(text, b',').map(text::trimmed) {
            if !part.is_empty() {
                parts.push(part);
            }
        }
        let mut filter = Filter::default();
        for part in &parts {
            let (list, glob) = match part.strip_prefix('-') {
                Some(rest) => (&mut filter.excludes, text::trimmed(rest)),
                None => (&mut filter.includes, *part),
            };
            match glob {
                "" => {
                    return Err(owned(
                        "`-` excludes nothing; write a function name or glob after it",
                    ));
                }
                word if Filter::means_off(word) && parts.len() == 1 && !part.starts_with('-') => {
                    return Ok(Filter::default());
                }
                word if Filter::means_off(word) => {
                    return Err(owned(
                        "`off` can't be combined with other patterns; leave it out",
                    ));
                }
                word if Filter::means_on(word) => list.push(owned("*")),
                _ => list.push(owned(glob)),
            }
        }
        if parts.is_empty() {
            let accepted =
                "`1`, `on`, `*`, `off`, or a list of globs such as `my_app::*,-my_app::hot::*`";
            return Err(format!("no pattern; accepted are {accepted}"));
        }
        Ok(filter)
    }

    /// Whether the filter matches nothing at all.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.includes.is_empty() && self.excludes.is_empty()
    }

    /// Whether the filter lets this name pass.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        if self.excludes.iter().any(|glob| covers(glob, name)) {
            return false;
        }
        if self.includes.is_empty() {
            return !self.excludes.is_empty();
        }
        self.includes.iter().any(|glob| covers(glob, name))
    }

    /// The globs that include functions and match none of `names`. Excludes are ignored. Such globs are
    /// likely typing errors; [`nearest()`] helps to report them.
    #[must_use]
    pub fn unmatched(&self, names: &[&str]) -> Vec<&str> {
        let mut unmatched = Vec::new();
        for glob in &self.includes {
            if !names.iter().any(|name| covers(glob, name)) {
                unmatched.push(glob.as_str());
            }
        }
        unmatched
    }

    /// The filter in the words that [`Filter::parse`] takes.
    #[must_use]
    pub fn in_words(&self) -> String {
        if self.is_off() {
            return owned("off");
        }
        let mut words = String::new();
        for (sign, globs) in [("", &self.includes), ("-", &self.excludes)] {
            for glob in globs {
                text::append(&mut words, ",", sign);
                words.push_str(glob);
            }
        }
        words
    }

    /// The globs that ask for functions.
    #[must_use]
    pub fn includes(&self) -> &[String] {
        &self.includes
    }
}

/// One glob for names of anything, such as threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// The glob as the user gave it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it matches all of a name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        is_match(self.0.chars(), name.chars(), '*', '?')
    }
}

impl FromStr for Glob {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Glob, &'static str> {
        match text {
            "" => Err("no name in it"),
            text => Ok(Glob(text.to_owned())),
        }
    }
}

/// Whether the glob matches the name. A glob that doesn't begin with `<` may also match the part behind
/// the `<` of the name. A glob without `*` and `?` may be the end of the name, behind a `::`.
#[inline(never)]
fn covers(glob: &str, name: &str) -> bool {
    if !glob.contains(['*', '?']) {
        let front = name.strip_suffix(glob);
        return front.is_some_and(|front| matches!(front, "" | "<") || front.ends_with("::"));
    }
    let is = |name: &str| is_match(glob.chars(), name.chars(), '*', '?');
    is(name) || !glob.starts_with('<') && name.strip_prefix('<').is_some_and(is)
}

/// Whether a glob matches the whole text. `star` matches any run, and `one` matches any single item: a
/// character or a byte.
///
/// Only the last `star` is tried again, because a longer match of an earlier `star` can't help. So the
/// number of steps is at most the product of the lengths.
pub fn is_match<T: PartialEq + Copy>(
    glob: impl Iterator<Item = T> + Clone,
    text: impl Iterator<Item = T> + Clone,
    star: T,
    one: T,
) -> bool {
    let (mut glob, mut text) = (glob, text);
    // The place to continue after a failed comparison: the glob behind the last star, and the text one
    // item further.
    let mut retry = None;
    loop {
        let (mut glob_rest, mut rest) = (glob.clone(), text.clone());
        match (glob_rest.next(), rest.next()) {
            (None, None) => return true,
            (Some(want), _) if want == star => {
                glob = glob_rest;
                retry = Some((glob.clone(), text.clone()));
                continue;
            }
            (Some(want), Some(have)) if want == one || want == have => {
                (glob, text) = (glob_rest, rest);
                continue;
            }
            _ => {}
        }
        let Some((after_star, mut skipped)) = retry else {
            return false;
        };
        if skipped.next().is_none() {
            return false;
        }
        (glob, text) = (after_star.clone(), skipped.clone());
        retry = Some((after_star, skipped));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        Filter::parse(text).unwrap()
    }

    fn is(glob: &str, name: &str) -> bool {
        is_match(glob.chars(), name.chars(), '*', '?')
    }

    #[test]
    fn a_filter_has_the_words_that_make_it() {
        for text in ["off", "*", "a::*,b?", "-a::*", "a::*,-a::hot,-b"] {
            assert_eq!(filter(text).in_words(), text);
        }
        assert_eq!(filter(" -b , 1 ,a").in_words(), "*,a,-b");
    }

    #[test]
    fn words_for_everything_and_nothing() {
        for text in ["1", "on", "*", " on ", "on,"] {
            assert!(filter(text).matches("a::b"), "{text}");
            assert!(!filter(text).is_off(), "{text}");
        }
        for text in ["off", "0", " off "] {
            assert!(!filter(text).matches("a::b"), "{text}");
            assert!(filter(text).is_off(), "{text}");
        }
        assert_eq!(Filter::default(), filter("off"));
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "no pattern"),
            (" , ", "no pattern"),
            ("-", "excludes nothing"),
            ("a,- ", "excludes nothing"),
            ("off,a", "combined"),
            ("-off", "combined"),
            ("a,0", "combined"),
        ] {
            let error = Filter::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn excludes_win_in_any_order() {
        for text in ["my_app::*,-my_app::hot::*", " -my_app::hot::* , my_app::* "] {
            let filter = filter(text);
            assert!(filter.matches("my_app::cold"));
            assert!(!filter.matches("my_app::hot::path"));
            assert!(filter.matches("my_app::hot"));
            assert!(!filter.matches("other::cold"));
        }
        assert!(!filter("on,-*::hot").matches("a::hot"));
        assert!(filter("on,-*::hot").matches("a::cold"));
    }

    #[test]
    fn excludes_alone_mean_everything_but() {
        let filter = filter("-*::hot");
        assert!(filter.matches("a::cold"));
        assert!(!filter.matches("a::hot"));
        assert!(!filter.is_off());
        assert!(filter.unmatched(&["a::cold"]).is_empty());
    }

    #[test]
    fn trait_methods_match_their_types_module() {
        let name = "<my_app::T as Tr>::m";
        assert!(filter("my_app::*").matches(name));
        assert!(!filter("my_app::*,-my_app::T*").matches(name));
        assert!(filter("<my_app::*").matches(name));
        assert!(filter("*::m").matches(name));
        assert!(!filter("app::*").matches(name));
        assert!(!filter("<my_app::*").matches("<<my_app::T as Tr>::U as Tr>::m"));
    }

    #[test]
    fn the_end_of_a_name_is_enough() {
        for name in [
            "a::queue::Queue::pop",
            "Queue::pop",
            "pop",
            "<a::Queue as Tr>::pop",
        ] {
            assert!(filter("pop").matches(name), "{name}");
            assert!(!filter("*,-pop").matches(name), "{name}");
            assert!(!filter("op").matches(name), "{name}");
        }
        assert!(filter("Queue::pop").matches("a::queue::Queue::pop"));
        for glob in [
            "Queue::pop",
            "eue::pop",
            "queue",
            "a::queue",
            "queue::*",
            "?op",
            "",
        ] {
            assert!(!covers(glob, "a::queue::DeQueue::pop"), "{glob}");
        }
        assert!(filter("last,po").unmatched(&["a::last"]) == ["po"]);
    }

    #[test]
    fn globs() {
        for (glob, name, expected) in [
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("*", "", true),
            ("**", "abc", true),
            ("?", "", false),
            ("?", "é", true),
            ("??", "é", false),
            ("*??", "é", false),
            ("*?", "日本", true),
            ("a*c", "abcbc", true),
            ("a*c", "abcb", false),
            ("*b*d", "abcd", true),
            ("*b*d", "abc", false),
            ("a*b*c*", "a1b2c3", true),
            ("*ab", "aab", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("my_app::*", "my_app", false),
            ("a::f<u8? u16>", "a::f<u8, u16>", true),
        ] {
            assert_eq!(is(glob, name), expected, "{glob:?} {name:?}");
        }
    }

    #[test]
    fn agrees_with_the_definition_on_every_short_string() {
        // The definition, by recursion: exponential, and plainly right.
        fn defined(glob: &[u8], name: &[u8]) -> bool {
            match (glob.split_first(), name.split_first()) {
                (None, _) => name.is_empty(),
                (Some((b'*', rest)), None) => defined(rest, name),
                (Some((b'*', rest)), Some((_, tail))) => defined(rest, name) || defined(glob, tail),
                (Some((want, rest)), Some((have, tail))) => {
                    (*want == b'?' || want == have) && defined(rest, tail)
                }
                (Some(_), None) => false,
            }
        }
        fn words(letters: &[u8], longest: usize) -> Vec<Vec<u8>> {
            let mut all = vec![vec![]];
            let mut from = 0;
            for _ in 0..longest {
                let to = all.len();
                for i in from..to {
                    for letter in letters {
                        all.push([all[i].as_slice(), &[*letter]].concat());
                    }
                }
                from = to;
            }
            all
        }
        for glob in words(b"ab*?", 5) {
            for name in words(b"ab", 5) {
                let (g, n) = (
                    std::str::from_utf8(&glob).unwrap(),
                    std::str::from_utf8(&name).unwrap(),
                );
                assert_eq!(is(g, n), defined(&glob, &name), "{g:?} {n:?}");
                let bytes = is_match(glob.iter(), name.iter(), &b'*', &b'?');
                assert_eq!(bytes, defined(&glob, &name), "{g:?} {n:?}");
            }
        }
    }

    #[test]
    fn a_hostile_glob_ends_soon() {
        let name = "a".repeat(2000);
        let glob = format!("{}b", "a*".repeat(500));
        // 2000 x 1001 steps; with backtracking into every star it would outlast the universe.
        assert!(!is(&glob, &name));
    }

    #[test]
    fn patterns_that_match_nothing_are_found() {
        let filter = filter("app::*,ap::x,-app::y,lib::?");
        assert_eq!(filter.unmatched(&["app::f", "app::y"]), ["ap::x", "lib::?"]);
        assert_eq!(filter.unmatched(&[]), ["app::*", "ap::x", "lib::?"]);
    }
}
