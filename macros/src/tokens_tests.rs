//! A person's tokens come back as they were written: all of them, in their order, and with their places. Messages, lints
//! and editors depend on that.

use proc_macro2::{TokenStream, TokenTree};

use crate::expand::expand;
use crate::options::Options;
use crate::parse::{Function, sole_item};
use crate::scope::{expand_scope, is_scope};

/// The text and the place of each token. A group is shown by its delimiters.
fn places(tokens: TokenStream, places: &mut Vec<String>) {
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            let open = group.span_open().byte_range();
            places.push(format!("{:?} {open:?}", group.delimiter()));
            self::places(group.stream(), places);
            places.push(format!("end {:?}", group.span_close().byte_range()));
        } else {
            places.push(format!("{token} {:?}", token.span().byte_range()));
        }
    }
}

/// Asserts that the expansion holds the item's tokens.
fn assert_comes_back(options: &str, text: &str) {
    let tokens: TokenStream = text.parse().expect("tokens");
    let options: Options = syn::parse_str(options).expect("options");
    let item = sole_item(tokens.clone());
    let expanded = match is_scope(&item) {
        true => expand_scope(item, options),
        false => expand(Function::from_item(item).expect("a function"), &options),
    };
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    places(tokens, &mut wanted);
    places(expanded, &mut found);
    assert!(wanted.len() + 10 < found.len(), "{text}: nothing is added");
    let mut found = found.iter();
    for token in &wanted {
        assert!(
            found.any(|other| other == token),
            "{text}: {token} is missing"
        );
    }
}

#[test]
fn functions_come_back_as_written() {
    for item in [
        "#[doc = \"x\"] pub(crate) fn a<T: B>(&self, mut x: T) -> Option<T> where T: C { let y = x?; y.d() }",
        "async unsafe extern \"C\" fn a((x, _): (u8, String)) { y.await; x.z() }",
        "fn a(x: &u8) -> Pin<Box<F>> { use b::c; Box::pin(async move { c(x) }) }",
        "fn a() { f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(f(f())))))))))))))))) }",
        "fn a() { #![allow(x)] const N: u8 = 1; fn b() {} b() }",
    ] {
        assert_comes_back("", item);
        assert_comes_back("args, name = \"x\", crate = a::b", item);
    }
    assert_comes_back("args, ret, err = ?", "fn a(x: u8) -> R { x.b()?; c }");
}

/// A function without `async` has patterns and the word `fn` in other places than its source. All other tokens come
/// back.
#[test]
fn tokens_of_a_desugared_function_come_back() {
    let text = "#[inline] pub async fn a<'b, T: C>(&'b self, (mut x, _): (u8, T)) -> Vec<T> where T: C { y(x).await; z }";
    let tokens: TokenStream = text.parse().expect("tokens");
    let options = Options {
        desugars: true,
        ..Options::default()
    };
    let function = Function::from_item(sole_item(tokens.clone())).expect("a function");
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    places(tokens, &mut wanted);
    places(expand(function, &options), &mut found);
    let lost: Vec<_> = wanted
        .iter()
        .filter(|token| !found.contains(token))
        .collect();
    assert!(
        matches!(lost[..], [a, b] if a.starts_with("async ") && b.starts_with("fn ")),
        "{lost:?}"
    );
}

#[test]
fn syntax_that_syn_does_not_know_comes_back() {
    for item in [
        "fn a(&pin const self, x: impl async Fn(u8)) -> ! { loop {} }",
        "async fn a(x: u8 = 3) -> u8 { for await y in x {} }",
        "fn a(x: Vec<const { 3 }>) -> u8 { super let y = x.use; reuse b::c; do yeet y }",
        "fn a<T: use<'a>>() { unsafe static X: u8 = 1; impl T for .. {} x }",
        "final fn a(mut ref x: u8) { y.match { _ => 1 } }",
    ] {
        assert_comes_back("", item);
        assert_comes_back("args, untimed", item);
    }
    assert_comes_back("ret = %", "fn a(x: u8 = 3) -> u8 { x.use }");
}

#[test]
fn scopes_come_back_as_written() {
    let items =
        "type const X: u8 = 1; reuse b::c; m! { d } fn e<T: use<'a>>() { super let x = 1; x.use }
        #[inline] pub fn f(&self) -> u8 { for g in h { i(g) } } unsafe static J: u8 = { 1 };
        const fn k() -> u8 { 1 } fn l(&self);";
    for scope in [
        "pub mod a",
        "impl<const N: u8> A<{ 1 }> for B",
        "pub unsafe auto trait A: B",
    ] {
        assert_comes_back("", &format!("#[x] {scope} {{ {items} }}"));
    }
    assert_comes_back(
        "always, crate = x::y",
        &format!("mod a {{ mod b {{ {items} }} impl C {{ {items} }} }}"),
    );
}
