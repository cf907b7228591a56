//! Which bodies get a stack frame of their own. In an unoptimized build, a call that may unwind into a guard's
//! destructor keeps its result in a separate stack slot, if the result is in registers. So a body of many calls
//! becomes a closure behind the guard, because the closure's frame has no destructor. This file may choose only
//! bodies that behave exactly the same as a closure.

use fdr_marks::items::contains_word;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{FnArg, Pat, ReceiverKind, Signature, Type};

use crate::body::Body;
use crate::parse::{Function, diverges};
use crate::process::is_clippy;

/// With this many calls or more, a second frame takes less stack than the slots do.
const MANY_CALLS: usize = 16;

/// Types of parameters that are copied, by their names alone.
const COPIED: [&str; 16] = [
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32",
    "u64", "u128", "usize",
];

/// Attributes that say something of the body's own frame.
const OF_THE_FRAME: [&str; 4] = ["track_caller", "target_feature", "coverage", "optimize"];

/// Whether the body becomes a closure. Then all parameters are references or numbers. A closure that captures
/// only these changes neither the drops and their order, nor the messages of the compiler and of clippy.
pub(crate) fn is_own(function: &Function, body: &Body) -> bool {
    // Some of clippy's lints do not look into closures.
    !function.is_async
        && !is_clippy()
        && may_call_often(&function.body)
        && calls(body.rest.clone()) >= MANY_CALLS
        && !names_the_frame(function)
        && function
            .signature()
            .is_some_and(|signature| can_be_of_a_closure(&signature))
}

/// Whether the body may have many calls. False only if its text shows that it has few, because a walk over the
/// tokens is slow.
fn may_call_often(body: &Group) -> bool {
    match body.span().source_text() {
        // In the text of a macro's rule, `$` may stand for more text.
        Some(text) if text.starts_with('{') && !text.contains('$') => {
            let weight = |byte| match byte {
                b'(' => 1,
                b'?' => 2,
                _ => 0,
            };
            text.bytes().map(weight).sum::<usize>() >= MANY_CALLS
        }
        _ => true,
    }
}

/// Counts what looks like a call, or like a pattern with parentheses. A `?` counts as two.
fn calls(tokens: TokenStream) -> usize {
    let mut count = 0;
    let mut after_name = false;
    for token in tokens {
        match &token {
            TokenTree::Group(group) => {
                let is_call = after_name && group.delimiter() == Delimiter::Parenthesis;
                count += usize::from(is_call) + calls(group.stream());
            }
            TokenTree::Punct(punct) if punct.as_char() == '?' => count += 2,
            _ => {}
        }
        after_name = matches!(token, TokenTree::Ident(_))
            || matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '>');
    }
    count
}

fn names_the_frame(function: &Function) -> bool {
    let mut attributes = function.item.attributes.iter();
    attributes.any(|attribute| {
        let tokens = attribute.brackets.stream();
        OF_THE_FRAME
            .iter()
            .any(|word| contains_word(tokens.clone(), word))
    })
}

/// Whether each parameter is a name for a reference or a number. The tokens behind the parameters must not
/// contain `impl`, because a closure's body infers such a type less freely.
fn can_be_of_a_closure(signature: &Signature) -> bool {
    let mut behind = signature.output.to_token_stream();
    signature.generics.where_clause.to_tokens(&mut behind);
    signature.variadic.is_none()
        && !diverges(signature)
        && !contains_word(behind, "impl")
        && signature.inputs.iter().all(parameter_is_copied)
}

fn parameter_is_copied(parameter: &FnArg) -> bool {
    match parameter {
        FnArg::Receiver(receiver) => match &receiver.kind {
            ReceiverKind::Reference(..) => true,
            ReceiverKind::Typed(_, ty) => receiver.mutability.is_none() && is_copied(ty),
            _ => false,
        },
        FnArg::Typed(parameter) => match &*parameter.pat {
            Pat::Ident(name) => {
                let is_name =
                    name.mutability.is_none() && name.by_ref.is_none() && name.subpat.is_none();
                is_name && is_copied(&parameter.ty)
            }
            Pat::Wild(_) => is_copied(&parameter.ty),
            _ => false,
        },
    }
}

/// References, raw pointers, pointers to functions, and numbers.
fn is_copied(ty: &Type) -> bool {
    match ty {
        Type::Reference(_) | Type::Ptr(_) | Type::FnPtr(_) => true,
        Type::Group(group) => is_copied(&group.elem),
        Type::Paren(inside) => is_copied(&inside.elem),
        Type::Path(path) => COPIED.iter().any(|name| path.path.is_ident(name)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::sole_item;

    fn owns_frame(head: &str, calls: usize) -> bool {
        let body = "f(x); ".repeat(calls);
        let function = format!("{head} {{ {body} }}").parse().expect("tokens");
        let function = Function::from_item(sole_item(function)).expect("a function");
        let body = Body::split(function.body.stream());
        is_own(&function, &body)
    }

    #[test]
    fn only_of_many_calls() {
        let head = "fn a(&self)";
        assert!(owns_frame(head, MANY_CALLS) && !owns_frame(head, MANY_CALLS - 1));
        let count = |text: &str| calls(text.parse().expect("tokens"));
        assert_eq!(count("a(b(c)); d.e::<F>(g)? + (h) - i![j]; k!(l)"), 5);
        assert_eq!(count("match a { B(c) => { d() } }"), 2);
    }

    #[test]
    fn only_where_parameters_are_copied() {
        for head in [
            "fn a()",
            "#[inline] pub fn a<'b, V: C>(&'b mut self, v: &mut V, _: u8) -> D<V::E> where V: F",
            "fn a(self: &Self, b: *const u8, c: fn(u8) -> u8)",
            "fn a(b: (u8), c: (&D), e: for<'f> unsafe extern \"C\" fn(&'f G), h: &'static I<J, K>)",
        ] {
            assert!(owns_frame(head, MANY_CALLS), "{head}");
        }
        for head in [
            "fn a(self)",
            "fn a(mut self)",
            "fn a(self: Box<Self>)",
            "fn a(b: T)",
            "fn a(mut b: &str)",
            "fn a(ref b: &str)",
            "fn a((b, c): (u8, u8))",
            "fn a(b: (), c: (u8,))",
            "fn a(b: [u8; 2])",
            "fn a(b: c::u8)",
            "fn a(b: Fn<u8>)",
            "fn a(b: impl C)",
            "fn a(&self) -> impl B",
            "fn a(&self) -> Box<dyn Fn(&impl B)>",
            "fn a(&self) -> !",
            "async fn a(&self)",
            "#[track_caller] fn a(&self)",
            "#[cfg_attr(b, track_caller)] fn a(&self)",
            "#[target_feature(enable = \"avx\")] fn a(&self)",
            "unsafe extern \"C\" fn a(b: &u8, ...)",
        ] {
            assert!(!owns_frame(head, MANY_CALLS), "{head}");
        }
    }
}
