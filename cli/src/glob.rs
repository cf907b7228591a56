//! Wildcards: `*` stands for any run of characters (also `::` and none), `?` for one.
//!
//! The same rules as in the `FDR` variable: a comma list, `-` before a pattern excludes, and
//! `my_app::*` is also tried behind the `<` of `<my_app::T as Tr>::m`. This file must never go over a
//! text more than once per pattern character (no exponential patterns).

/// One pattern on names.
#[derive(Clone, Debug)]
pub(crate) struct Glob(String);

impl std::str::FromStr for Glob {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Glob, &'static str> {
        match text {
            "" => Err("no name in it"),
            text => Ok(Glob(text.to_owned())),
        }
    }
}

impl Glob {
    /// As it was given.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it matches a name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let chars = |text: &str| text.chars().collect::<Vec<char>>();
        matches(&chars(&self.0), &chars(name), '*', '?')
    }
}

/// A list of patterns on function names: `my_app::*,-my_app::hot::*`.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl std::str::FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Filter, String> {
        let mut filter = Filter {
            include: Vec::new(),
            exclude: Vec::new(),
        };
        for pattern in text
            .split(',')
            .map(str::trim)
            .filter(|pattern| !pattern.is_empty())
        {
            match pattern.strip_prefix('-') {
                Some("") => {
                    return Err("a lone `-` excludes nothing: put a pattern after it".into());
                }
                Some(excluded) => filter.exclude.push(excluded.into()),
                None => filter.include.push(pattern.into()),
            }
        }
        if filter.include.is_empty() && filter.exclude.is_empty() {
            return Err("no pattern in it; for example `my_app::*,-my_app::hot::*`".into());
        }
        Ok(filter)
    }
}

impl Filter {
    /// Whether a name is wanted: matched by a pattern, and by none that excludes. Where every
    /// pattern excludes, all other names are wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let any = |patterns: &[String]| patterns.iter().any(|pattern| covers(pattern, &name));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    /// The patterns that do not exclude.
    pub(crate) fn included(&self) -> &[String] {
        &self.include
    }
}

/// Whether a pattern matches the name or, where it does not begin with `<` itself, the name behind it.
fn covers(pattern: &str, name: &[char]) -> bool {
    let glob: Vec<char> = pattern.chars().collect();
    let is = |text: &[char]| matches(&glob, text, '*', '?');
    is(name) || !pattern.starts_with('<') && name.strip_prefix(&['<']).is_some_and(is)
}

/// Whether a pattern matches all of a text, where `star` stands for any run and `one` for any one
/// character or byte. Takes at most pattern times text steps.
pub(crate) fn matches<T: PartialEq>(pattern: &[T], text: &[T], star: T, one: T) -> bool {
    let (mut at, mut done) = (0, 0);
    // Where the last star was, and how much of the text it has swallowed.
    let mut last: Option<(usize, usize)> = None;
    while done < text.len() {
        match pattern.get(at) {
            Some(want) if *want == star => {
                last = Some((at, done));
                at += 1;
            }
            Some(want) if *want == one || *want == text[done] => {
                at += 1;
                done += 1;
            }
            _ => {
                let Some((place, swallowed)) = last else {
                    return false;
                };
                last = Some((place, swallowed + 1));
                at = place + 1;
                done = swallowed + 1;
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == star)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), b'*', b'?')
    }

    #[test]
    fn wildcards() {
        assert!(is("*", ""));
        assert!(is("*", "a::b"));
        assert!(is("a::*", "a::b::c"));
        assert!(is("*::c", "a::b::c"));
        assert!(is("a*b*c", "aXXbYYc"));
        assert!(is("a?c", "abc"));
        assert!(is("abc", "abc"));
        assert!(!is("abc", "abcd"));
        assert!(!is("a?c", "ac"));
        assert!(!is("a::*", "b::a::c"));
        assert!(!is("", "a"));
        assert!(is("", ""));
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = "*a".repeat(500) + "b";
        assert!(!is(&pattern, &"a".repeat(2000)));
    }

    #[test]
    fn filters() {
        let filter: Filter = "my::*, -my::hot::*".parse().unwrap();
        assert!(filter.wants("my::cold"));
        assert!(!filter.wants("my::hot::loop"));
        assert!(!filter.wants("other"));
        let all_but: Filter = "-x*".parse().unwrap();
        assert!(all_but.wants("y"));
        assert!(!all_but.wants("xy"));
        let one: Filter = "a::?".parse().unwrap();
        assert!(one.wants("a::é") && !one.wants("a::ab"));
        let of_types: Filter = "my::*".parse().unwrap();
        assert!(of_types.wants("<my::T as Tr>::m") && !of_types.wants("<<my::T as Tr>::U>::m"));
        assert!("".parse::<Filter>().is_err());
        assert!("a,-".parse::<Filter>().is_err());
    }
}
