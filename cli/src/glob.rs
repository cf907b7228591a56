//! Wildcards: `*` stands for any run of characters (also `::` and none), `?` for one.
//!
//! The same rule as in the `FDR` variable: a comma list, `-` before a pattern excludes. This file
//! must never go over a text more than once per pattern character (no exponential patterns).

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
        let any = |patterns: &[String]| {
            patterns
                .iter()
                .any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
        };
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Whether a pattern matches all of a text. Takes at most pattern times text steps.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut done) = (0, 0);
    // Where the last star was, and how much of the text it has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while done < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, done));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[done] => {
                at += 1;
                done += 1;
            }
            _ => {
                let Some((place, swallowed)) = star else {
                    return false;
                };
                star = Some((place, swallowed + 1));
                at = place + 1;
                done = swallowed + 1;
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes())
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
        assert!("".parse::<Filter>().is_err());
        assert!("a,-".parse::<Filter>().is_err());
    }
}
