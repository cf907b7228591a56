//! The parameters of a signature, and the names that they bind by value, found in tokens. A signature that cannot be
//! read has no names here. Code must be correct without them: then only the order in which parameters are dropped
//! differs.

use proc_macro2::{Delimiter, Ident, Spacing, TokenStream, TokenTree};

use crate::items::{is_named, is_punct, is_word};

/// A parameter as it is written, without its attributes.
pub(crate) struct Parameter {
    pub(crate) pattern: Vec<TokenTree>,
    /// Nothing for `self`, `&self` and the like.
    pub(crate) ty: Vec<TokenTree>,
}

/// A name that stands for a parameter, or for a part of one.
pub(crate) struct Binding {
    pub(crate) name: Ident,
    pub(crate) is_mut: bool,
    /// The number of the parameter, without a receiver.
    pub(crate) nth: usize,
    is_ref: bool,
}

/// Names bound by value in the parameters, in order. `signature` begins behind the function's name.
pub(crate) fn bound_by_value(signature: &[TokenTree]) -> Vec<Binding> {
    let mut names = bound(signature);
    names.retain(|binding| !binding.is_ref);
    names
}

/// All names bound in the parameters, in order, but no borrowed `self`.
pub(crate) fn bound(signature: &[TokenTree]) -> Vec<Binding> {
    let mut names = Vec::new();
    let mut nth = 0;
    for parameter in parameters(signature).unwrap_or_default() {
        if !parameter.is_borrowed_self() {
            collect(&parameter.pattern, nth, &mut names);
        }
        nth += usize::from(!is_word(parameter.pattern.last(), "self"));
    }
    names
}

/// Where in the signature the parentheses of its parameters are.
pub(crate) fn parentheses_at(signature: &[TokenTree]) -> Option<usize> {
    let mut outside = outside_generics(signature);
    outside
        .find(|(_, token)| group_of(token, Delimiter::Parenthesis).is_some())
        .map(|(at, _)| at)
}

/// The parameters; nothing if one can't be read.
pub(crate) fn parameters(signature: &[TokenTree]) -> Option<Vec<Parameter>> {
    let parentheses = &signature[parentheses_at(signature)?];
    let inside = without_groups(group_of(parentheses, Delimiter::Parenthesis)?);
    let mut parameters = Vec::new();
    let mut start = 0;
    let commas = outside_generics(&inside).filter(|(_, token)| is_punct(Some(token), ','));
    for end in commas.map(|(at, _)| at).chain([inside.len()]) {
        if start < end {
            parameters.push(Parameter::read(&inside[start..end])?);
        }
        start = end + 1;
    }
    Some(parameters)
}

impl Parameter {
    fn read(mut tokens: &[TokenTree]) -> Option<Parameter> {
        while let [hash, TokenTree::Group(_), rest @ ..] = tokens {
            if !is_punct(Some(hash), '#') {
                break;
            }
            tokens = rest;
        }
        let (pattern, ty) = match colon(tokens) {
            Some(at) => (&tokens[..at], &tokens[at + 1..]),
            None if is_word(tokens.last(), "self") => (tokens, [].as_slice()),
            None => return None,
        };
        Some(Parameter {
            pattern: pattern.to_vec(),
            ty: ty.to_vec(),
        })
    }

    /// `&self`, `&'a mut self`
    pub(crate) fn is_borrowed_self(&self) -> bool {
        self.ty.is_empty() && is_punct(self.pattern.first(), '&')
    }
}

/// Where a pattern ends, and its type begins.
fn colon(tokens: &[TokenTree]) -> Option<usize> {
    (0..tokens.len()).find(|&at| {
        is_punct(tokens.get(at), ':')
            && !is_double_colon(tokens, at)
            && !(at > 0 && is_double_colon(tokens, at - 1))
    })
}

fn is_double_colon(tokens: &[TokenTree], at: usize) -> bool {
    matches!(&tokens[at], TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint)
        && is_punct(tokens.get(at + 1), ':')
}

/// The names in a pattern.
fn collect(pattern: &[TokenTree], nth: usize, names: &mut Vec<Binding>) {
    let (mut is_mut, mut is_ref) = (false, false);
    for (at, token) in outside_generics(pattern) {
        match token {
            // A macro's arguments may be anything.
            TokenTree::Group(group) if at == 0 || !is_punct(pattern.get(at - 1), '!') => {
                collect(&without_groups(group.stream()), nth, names);
            }
            TokenTree::Ident(word) if is_named(word, "mut") => is_mut = true,
            TokenTree::Ident(word) if is_named(word, "ref") => is_ref = true,
            TokenTree::Ident(name) => {
                let is_path_end = at > 1 && is_double_colon(pattern, at - 2);
                // A path, a field, a macro, or a struct with fields.
                let goes_on = match pattern.get(at + 1) {
                    Some(TokenTree::Punct(punct)) => matches!(punct.as_char(), ':' | '!'),
                    next => matches!(next, Some(TokenTree::Group(_))),
                };
                if !is_path_end && !goes_on && !is_named(name, "_") {
                    names.push(Binding {
                        name: name.clone(),
                        is_mut,
                        nth,
                        is_ref,
                    });
                }
                (is_mut, is_ref) = (false, false);
            }
            _ => {}
        }
    }
}

/// The tokens outside of `<…>`, with their places.
pub(crate) fn outside_generics(tokens: &[TokenTree]) -> impl Iterator<Item = (usize, &TokenTree)> {
    let mut depth = 0_usize;
    let mut after_dash = false;
    tokens.iter().enumerate().filter(move |(_, token)| {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '<' => depth += 1,
            TokenTree::Punct(punct) if punct.as_char() == '>' && !after_dash => {
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        after_dash = is_punct(Some(token), '-');
        depth == 0
    })
}

/// The tokens. What a macro put in groups without delimiters stands for itself.
pub(crate) fn without_groups(tokens: TokenStream) -> Vec<TokenTree> {
    let mut open = Vec::new();
    for token in tokens {
        match group_of(&token, Delimiter::None) {
            Some(inside) => open.extend(without_groups(inside)),
            None => open.push(token),
        }
    }
    open
}

/// What a group of these delimiters holds.
pub(crate) fn group_of(token: &TokenTree, delimiter: Delimiter) -> Option<TokenStream> {
    match token {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group.stream()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(signature: &str) -> Vec<String> {
        let tokens: Vec<_> = signature
            .parse::<TokenStream>()
            .expect("tokens")
            .into_iter()
            .collect();
        let text = |binding: &Binding| {
            let mutable = if binding.is_mut { "mut " } else { "" };
            format!("{mutable}{}", binding.name)
        };
        bound_by_value(&tokens).iter().map(text).collect()
    }

    #[test]
    fn every_form_of_parameter() {
        assert_eq!(names("()"), [""; 0]);
        assert_eq!(
            names("(self, a: A, mut b: B,) -> C"),
            ["self", "a", "mut b"]
        );
        assert_eq!(names("(&mut self, _: A, ref c: C)"), [""; 0]);
        assert_eq!(names("(mut self: Box<Self>)"), ["mut self"]);
        assert_eq!(
            names(
                "<F: Fn(u8) -> u8, const N: usize>((a, [b, ..]): T, P { c, d: Q(e), .. }: P) where F: G"
            ),
            ["a", "b", "c", "e"]
        );
        assert_eq!(names("(&a: &A, b @ (c): D)"), ["a", "b", "c"]);
        assert_eq!(
            names(
                "(#[x] a:&A, b: ::c::D, _: impl Fn(E, F) -> G<H, I>, p::Q::<R> { s, mut t: mut u }: V<W, X>)"
            ),
            ["a", "b", "s", "mut u"]
        );
        assert_eq!(
            names("(&'a mut self, m!(b): C, self::D(ref mut e, f): G)"),
            ["f"]
        );
    }

    #[test]
    fn what_cannot_be_read_binds_nothing() {
        assert_eq!(names(""), [""; 0]);
        assert_eq!(names("(a new kind of parameter)"), [""; 0]);
    }
}
