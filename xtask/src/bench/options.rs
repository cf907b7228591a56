//! The words behind a benchmark's name: `--name` and `--name value`, in any order. It must know no option by
//! itself: which there are, and what they are set to, is each benchmark's own.

use std::path::PathBuf;
use std::slice::Iter;
use std::str::FromStr;

use crate::Result;

/// The words that were not read yet.
pub(super) struct Words<'a> {
    left: Iter<'a, &'a str>,
    /// The option that is being read, for errors.
    name: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [&'a str]) -> Words<'a> {
        Words {
            left: words.iter(),
            name: "",
        }
    }

    /// The next option; `None` behind the last.
    pub(super) fn option(&mut self) -> Option<&'a str> {
        self.name = self.left.next().copied()?;
        Some(self.name)
    }

    /// The word behind the option.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(super) fn value(&mut self) -> Result<&'a str> {
        let value = self.left.next().copied();
        value.ok_or_else(|| format!("{} needs a value", self.name))
    }

    /// The file or folder behind the option.
    ///
    /// # Errors
    ///
    /// If there is no word.
    pub(super) fn path(&mut self) -> Result<PathBuf> {
        self.value().map(PathBuf::from)
    }

    /// The number behind the option: `least` or more.
    ///
    /// # Errors
    ///
    /// If there is no word, or it is no such number; `what` says there what is wanted: `a number of millions`.
    pub(super) fn number<N: FromStr + PartialOrd>(&mut self, what: &str, least: N) -> Result<N> {
        let number = self.value()?.parse().ok();
        let number = number.filter(|number| *number >= least);
        number.ok_or_else(|| format!("{} needs {what}", self.name))
    }

    /// The word behind the option, which is one of these.
    ///
    /// # Errors
    ///
    /// If it is none of them.
    pub(super) fn one_of(&mut self, all: &[&'static str]) -> Result<&'static str> {
        let value = self.value()?;
        let known = all.iter().find(|&&known| known == value).copied();
        known.ok_or_else(|| format!("{} needs one of {}", self.name, all.join(", ")))
    }

    /// The error of an option that the benchmark does not have.
    pub(super) fn unknown(&self) -> String {
        format!("unknown option {}; see cargo xtask help", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_their_order() {
        let mut words = Words::new(&["--out", "a b", "--quick", "--rounds", "7"]);
        assert_eq!(words.option(), Some("--out"));
        assert_eq!(words.path(), Ok(PathBuf::from("a b")));
        assert_eq!(words.option(), Some("--quick"));
        assert_eq!(words.option(), Some("--rounds"));
        assert_eq!(words.number("a number", 7), Ok(7));
        assert_eq!(words.option(), None);
        assert!(words.value().is_err());
    }

    #[test]
    fn one_of_some_words() {
        let mut words = Words::new(&["--body", "owns", "--body", "lends", "--body"]);
        let mut next = || {
            words.option()?;
            Some(words.one_of(&["borrows", "owns"]))
        };
        assert_eq!(next(), Some(Ok("owns")));
        let wrong = "--body needs one of borrows, owns".to_owned();
        assert_eq!(next(), Some(Err(wrong)));
        assert_eq!(next(), Some(Err("--body needs a value".to_owned())));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_options_name() {
        for (value, least) in [("6", 7), ("-1", 0), ("many", 0)] {
            let both = ["--mib", value];
            let mut words = Words::new(&both);
            assert_eq!(words.option(), Some("--mib"));
            let error = words.number::<u32>("a number, 7 at least", least);
            assert_eq!(error, Err("--mib needs a number, 7 at least".to_owned()));
        }
        let mut words = Words::new(&["--faster"]);
        assert_eq!(words.option(), Some("--faster"));
        assert!(words.unknown().starts_with("unknown option --faster;"));
        assert_eq!(words.path(), Err("--faster needs a value".to_owned()));
    }
}
