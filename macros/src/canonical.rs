//! Bodies that clippy compares with the one form that it accepts: `clone` of a type that is `Copy`, and `partial_cmp`
//! of one that is `Ord`. With a guard in front, such a body has another form. This file must find exactly the forms
//! that clippy accepts, so that clippy still reports every other body.

use crate::items::{is_punct, is_word};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Whether the method of that name has the body that clippy asks for.
pub(crate) fn is_canonical(name: &str, body: &TokenStream) -> bool {
    match name {
        "clone" => is_clone(value(body)),
        "partial_cmp" => is_partial_cmp(value(body)),
        _ => false,
    }
}

/// The tokens without `return` and `;` around them.
fn value(body: &TokenStream) -> Vec<TokenTree> {
    let mut tokens: Vec<TokenTree> = body.clone().into_iter().collect();
    if is_word(tokens.first(), "return") && is_punct(tokens.last(), ';') {
        tokens.remove(0);
        tokens.pop();
    }
    tokens
}

/// `*self`
fn is_clone(tokens: Vec<TokenTree>) -> bool {
    matches!(&tokens[..], [star, this] if is_punct(Some(star), '*') && is_word(Some(this), "self"))
}

/// `Some(CMP)`, `CMP.into()`
fn is_partial_cmp(tokens: Vec<TokenTree>) -> bool {
    match &tokens[..] {
        [path @ .., TokenTree::Group(group)]
            if is_word(path.last(), "Some") && is_path(path) && is_call(group) =>
        {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            is_cmp(&inner)
        }
        [cmp @ .., dot, into, TokenTree::Group(none)] => {
            is_punct(Some(dot), '.')
                && is_word(Some(into), "into")
                && is_call(none)
                && none.stream().is_empty()
                && is_cmp(cmp)
        }
        _ => false,
    }
}

/// `self.cmp(other)`, `Ord::cmp(self, other)`
fn is_cmp(tokens: &[TokenTree]) -> bool {
    match tokens {
        [this, dot, cmp, TokenTree::Group(arguments)]
            if is_word(Some(this), "self") && is_punct(Some(dot), '.') =>
        {
            is_word(Some(cmp), "cmp") && is_call(arguments)
        }
        [path @ .., TokenTree::Group(arguments)] => {
            is_word(path.last(), "cmp")
                && path.len() > 1
                && is_path(path)
                && is_call(arguments)
                && is_word(arguments.stream().into_iter().next().as_ref(), "self")
        }
        _ => false,
    }
}

fn is_call(group: &proc_macro2::Group) -> bool {
    group.delimiter() == Delimiter::Parenthesis
}

/// Names with `::` before and between them.
fn is_path(tokens: &[TokenTree]) -> bool {
    tokens.iter().all(|token| match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(punct) => punct.as_char() == ':',
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::is_canonical;

    #[test]
    fn the_forms_that_clippy_accepts() {
        let canonical = |name, body: &str| is_canonical(name, &body.parse().expect("tokens"));
        for body in ["*self", "return *self;"] {
            assert!(canonical("clone", body), "{body}");
            assert!(!canonical("cloned", body), "{body}");
        }
        for body in ["Self(self.0)", "*self.0", "*other", "return", ""] {
            assert!(!canonical("clone", body), "{body}");
        }
        for body in [
            "Some(self.cmp(other))",
            "return Some(self.cmp(other));",
            "::core::option::Option::Some(self.cmp(other))",
            "Some(Ord::cmp(self, other))",
            "Some(::std::cmp::Ord::cmp(self, other))",
            "self.cmp(other).into()",
            "Ord::cmp(self, other).into()",
        ] {
            assert!(canonical("partial_cmp", body), "{body}");
        }
        for body in [
            "Some(self.0.cmp(&other.0))",
            "Some(other.cmp(self))",
            "Some(Ord::cmp(&self.0, &other.0))",
            "Some(cmp(self, other))",
            "self.0.partial_cmp(&other.0)",
            "let x = other; Some(self.cmp(x))",
            "None",
            "",
        ] {
            assert!(!canonical("partial_cmp", body), "{body}");
        }
    }
}
