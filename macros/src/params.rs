//! The names that the parameters of a signature bind. If `syn` can't parse the signature, there are no names. The code
//! must be correct without them, too: then only the order in which parameters are dropped differs.

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{FnArg, PatIdent, ReceiverKind, Signature};

/// A name that stands for a parameter, or for a part of one.
pub(crate) struct Binding {
    pub(crate) name: Ident,
    pub(crate) is_mut: bool,
    /// The number of the parameter, without a receiver.
    pub(crate) nth: usize,
    is_ref: bool,
}

/// Names bound by value in the parameters, in order.
pub(crate) fn bound_by_value(signature: Option<&Signature>) -> Vec<Binding> {
    let mut names = bound(signature);
    names.retain(|binding| !binding.is_ref);
    names
}

/// All names bound in the parameters, in order, but no borrowed `self`.
pub(crate) fn bound(signature: Option<&Signature>) -> Vec<Binding> {
    let mut names = Names::default();
    for parameter in signature.iter().flat_map(|signature| &signature.inputs) {
        match parameter {
            FnArg::Receiver(receiver) => {
                if !matches!(receiver.kind, ReceiverKind::Reference(..)) {
                    let name = Ident::new("self", receiver.self_token.span);
                    names.add(&name, receiver.mutability.is_some(), false);
                }
            }
            FnArg::Typed(parameter) => {
                names.visit_pat(&parameter.pat);
                names.nth += 1;
            }
        }
    }
    names.bound
}

#[derive(Default)]
struct Names {
    bound: Vec<Binding>,
    nth: usize,
}

impl Names {
    fn add(&mut self, name: &Ident, is_mut: bool, is_ref: bool) {
        self.bound.push(Binding {
            name: name.clone(),
            is_mut,
            nth: self.nth,
            is_ref,
        });
    }
}

impl Visit<'_> for Names {
    fn visit_pat_ident(&mut self, name: &PatIdent) {
        self.add(
            &name.ident,
            name.mutability.is_some(),
            name.by_ref.is_some(),
        );
        visit::visit_pat_ident(self, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(signature: &str) -> Vec<String> {
        let signature = syn::parse_str(&format!("fn f{signature}")).ok();
        let text = |binding: &Binding| {
            let mutable = if binding.is_mut { "mut " } else { "" };
            format!("{mutable}{}", binding.name)
        };
        bound_by_value(signature.as_ref())
            .iter()
            .map(text)
            .collect()
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
                "(#[x] a:&A, b: ::c::D, _: impl Fn(E, F) -> G<H, I>, p::Q::<R> { s, t: mut u }: V<W, X>)"
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
