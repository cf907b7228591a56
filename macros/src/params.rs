//! The names that a signature binds by value. Code must be correct without these names. A signature that cannot be read
//! has none, and then only the order in which parameters drop differs.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{FnArg, Generics, Pat, Result, Token, parenthesized};

/// A name that stands for a parameter, or for a part of one.
pub(crate) struct Binding {
    pub(crate) name: Ident,
    pub(crate) is_mut: bool,
    /// The number of the parameter, without a receiver.
    pub(crate) nth: usize,
    by_ref: bool,
}

/// Names bound by value in the parameters, in order. `signature` begins behind the function's name.
pub(crate) fn bound_by_value(signature: &[TokenTree]) -> Vec<Binding> {
    let mut names = bound(signature);
    names.retain(|name| !name.by_ref);
    names
}

/// All names bound in the parameters, in order.
pub(crate) fn bound(signature: &[TokenTree]) -> Vec<Binding> {
    let tokens: TokenStream = signature.iter().cloned().collect();
    let mut names = Vec::new();
    let arguments = Parser::parse2(parse_arguments, tokens).map(|(arguments, _)| arguments);
    let mut nth = 0;
    for argument in arguments.unwrap_or_default() {
        match argument {
            FnArg::Receiver(receiver) => names.push(Binding {
                name: Ident::new("self", receiver.self_token.span),
                is_mut: receiver.mutability.is_some(),
                nth,
                by_ref: receiver.reference.is_some(),
            }),
            FnArg::Typed(typed) => {
                collect(*typed.pat, nth, &mut names);
                nth += 1;
            }
        }
    }
    names
}

/// The parameters, and what stands behind them: the return type and the where clause.
pub(crate) fn parse_arguments(
    input: ParseStream<'_>,
) -> Result<(Punctuated<FnArg, Token![,]>, TokenStream)> {
    input.parse::<Generics>()?;
    let content;
    parenthesized!(content in input);
    let arguments = content.parse_terminated(FnArg::parse, Token![,])?;
    Ok((arguments, input.parse()?))
}

fn collect(pattern: Pat, nth: usize, names: &mut Vec<Binding>) {
    match pattern {
        Pat::Ident(binding) => {
            names.push(Binding {
                name: binding.ident,
                is_mut: binding.mutability.is_some(),
                nth,
                by_ref: binding.by_ref.is_some(),
            });
            if let Some((_, inner)) = binding.subpat {
                collect(*inner, nth, names);
            }
        }
        Pat::Paren(inner) => collect(*inner.pat, nth, names),
        Pat::Reference(inner) => collect(*inner.pat, nth, names),
        Pat::Tuple(tuple) => tuple
            .elems
            .into_iter()
            .for_each(|inner| collect(inner, nth, names)),
        Pat::TupleStruct(tuple) => tuple
            .elems
            .into_iter()
            .for_each(|inner| collect(inner, nth, names)),
        Pat::Slice(slice) => slice
            .elems
            .into_iter()
            .for_each(|inner| collect(inner, nth, names)),
        Pat::Struct(fields) => {
            fields
                .fields
                .into_iter()
                .for_each(|field| collect(*field.pat, nth, names));
        }
        // Wildcards bind nothing; the rest cannot stand in a parameter.
        _ => {}
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
    }

    #[test]
    fn what_cannot_be_read_binds_nothing() {
        assert_eq!(names(""), [""; 0]);
        assert_eq!(names("(a new kind of parameter)"), [""; 0]);
    }
}
