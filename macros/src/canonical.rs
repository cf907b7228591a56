//! Bodies that clippy compares with the one form that it accepts: `clone` of a type that is `Copy`, and `partial_cmp`
//! of one that is `Ord`. With a guard in front, such a body has another form. This file must find exactly the forms
//! that clippy accepts, so that clippy still reports every other body.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::{Block, Expr, Stmt, UnOp};

/// Whether the method of that name has the body that clippy asks for.
pub(crate) fn is_canonical(name: &str, body: TokenStream) -> bool {
    match name {
        "clone" => value(body).is_some_and(|value| is_clone(&value)),
        "partial_cmp" => value(body).is_some_and(|value| is_partial_cmp(&value)),
        _ => false,
    }
}

/// The expression that is the whole body, or that the body returns.
fn value(body: TokenStream) -> Option<Expr> {
    let mut statements = Block::parse_within.parse2(body).ok()?;
    let last = statements.pop().filter(|_| statements.is_empty())?;
    match last {
        Stmt::Expr(Expr::Return(returned), Some(_)) => returned.expr.map(|value| *value),
        Stmt::Expr(value, None) => Some(value),
        _ => None,
    }
}

/// `*self`
fn is_clone(value: &Expr) -> bool {
    matches!(value, Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) && is_self(&unary.expr))
}

/// `Some(CMP)`, `CMP.into()`
fn is_partial_cmp(value: &Expr) -> bool {
    match value {
        Expr::Call(call) => {
            path_ends_in(&call.func, "Some", 1) && call.args.first().is_some_and(is_cmp)
        }
        Expr::MethodCall(call) => {
            call.method == "into" && call.args.is_empty() && is_cmp(&call.receiver)
        }
        _ => false,
    }
}

/// `self.cmp(other)`, `Ord::cmp(self, other)`
fn is_cmp(value: &Expr) -> bool {
    match value {
        Expr::MethodCall(call) => call.method == "cmp" && is_self(&call.receiver),
        Expr::Call(call) => {
            path_ends_in(&call.func, "cmp", 2) && call.args.first().is_some_and(is_self)
        }
        _ => false,
    }
}

fn is_self(value: &Expr) -> bool {
    matches!(value, Expr::Path(path) if path.path.is_ident("self"))
}

/// Whether the expression is a path of at least `least` names that ends in `name`.
fn path_ends_in(function: &Expr, name: &str, least: usize) -> bool {
    let Expr::Path(path) = function else {
        return false;
    };
    let names = &path.path.segments;
    names.len() >= least && names.last().is_some_and(|last| last.ident == name)
}

#[cfg(test)]
mod tests {
    use super::is_canonical;

    #[test]
    fn the_forms_that_clippy_accepts() {
        let canonical = |name, body: &str| is_canonical(name, body.parse().expect("tokens"));
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
