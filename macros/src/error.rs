//! The mistakes in a use of the attribute, each with its place in the source. This file must never lose one, so that
//! the compiler shows all of them.

use std::fmt;

use proc_macro2::{Span, TokenStream};

use crate::code::code;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// One mistake, or several.
#[derive(Debug)]
pub(crate) struct Error {
    mistakes: Vec<(Span, String)>,
}

impl Error {
    pub(crate) fn new(span: Span, text: impl Into<String>) -> Error {
        Error {
            mistakes: vec![(span, text.into())],
        }
    }

    /// Adds those of the other error.
    pub(crate) fn combine(&mut self, other: Error) {
        self.mistakes.extend(other.mistakes);
    }

    /// Tokens for which the compiler reports each mistake at its place.
    pub(crate) fn to_compile_error(&self) -> TokenStream {
        let mistakes = self.mistakes.iter();
        mistakes
            .map(|(span, text)| code!(*span=> ::core::compile_error! { #text }))
            .collect()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mistakes = self.mistakes.iter();
        let texts: Vec<&str> = mistakes.map(|(_, text)| text.as_str()).collect();
        formatter.write_str(&texts.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_shown() {
        let mut error = Error::new(Span::call_site(), "one");
        error.combine(Error::new(Span::call_site(), "two".to_owned()));
        assert_eq!(error.to_string(), "one\ntwo");
        assert_eq!(
            error.to_compile_error().to_string(),
            ":: core :: compile_error ! { \"one\" } :: core :: compile_error ! { \"two\" }"
        );
    }
}
