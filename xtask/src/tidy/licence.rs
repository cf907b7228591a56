//! Licences of what is linked into our users' programs: only permissive ones. An expression that is not understood is
//! refused.

/// Licences that ask for no more than their own text.
const PERMISSIVE: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression (`(MIT OR Apache-2.0) AND Unicode-3.0`; `/` is an old OR) can be met
/// with permissive licences alone.
pub(super) fn is_permissive(expression: &str) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let permissive = any(&mut words);
    permissive == Some(true) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>) -> Option<bool> {
    let mut permissive = all(words)?;
    while words.next_if_eq(&"OR").is_some() {
        permissive |= all(words)?;
    }
    Some(permissive)
}

fn all(words: &mut Words<'_>) -> Option<bool> {
    let mut permissive = one(words)?;
    while words.next_if_eq(&"AND").is_some() {
        permissive &= one(words)?;
    }
    Some(permissive)
}

fn one(words: &mut Words<'_>) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let permissive = any(words)?;
        return (words.next()? == ")").then_some(permissive);
    }
    // An exception only adds permissions.
    if words.next_if_eq(&"WITH").is_some() {
        words.next()?;
    }
    Some(PERMISSIVE.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissive_choices_pass() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
            "GPL-3.0-only OR MIT",
        ] {
            assert!(is_permissive(good), "{good}");
        }
    }

    #[test]
    fn copyleft_and_nonsense_are_refused() {
        for bad in [
            "",
            "GPL-3.0-only",
            "MPL-2.0",
            "MIT AND LGPL-2.1-or-later",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            "MIT OR",
            "(MIT",
            "MIT Apache-2.0",
            "Custom",
        ] {
            assert!(!is_permissive(bad), "{bad}");
        }
    }
}
