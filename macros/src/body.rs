//! A function body, split where a statement can be put in front of it without a trace: behind inner attributes and
//! leading items.

use fdr_marks::items::{begins_inner_attribute, braces, is_in, is_word, length};
use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenStream, TokenTree};
use syn::parse::Parser;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Item, Macro};

/// The parts of a body between its braces, in this order.
pub(crate) struct Body {
    /// `#![…]` and `//!`, which must come first.
    pub(crate) attributes: TokenStream,
    /// Items that come before every statement, where clippy wants them to stay.
    pub(crate) items: TokenStream,
    pub(crate) rest: TokenStream,
}

impl Body {
    pub(crate) fn split(body: TokenStream) -> Body {
        let mut tokens: Vec<TokenTree> = body.clone().into_iter().collect();
        if !tokens.first().is_some_and(begins_item) {
            // The usual case: the body begins with neither an attribute nor an item, so its tokens stay as they
            // are.
            return Body {
                attributes: TokenStream::new(),
                items: TokenStream::new(),
                rest: body,
            };
        }
        let mut at = 0;
        while begins_inner_attribute(&tokens[at..]) {
            at += 3;
        }
        let mut items = tokens.split_off(at);
        let rest = items.split_off(end_of_items(&items));
        Body {
            attributes: tokens.into_iter().collect(),
            items: items.into_iter().collect(),
            rest: rest.into_iter().collect(),
        }
    }

    /// The tokens that must stay in front of the guard.
    pub(crate) fn front(&self) -> TokenStream {
        [self.attributes.clone(), self.items.clone()]
            .into_iter()
            .collect()
    }

    /// Whether the body may await. False only if that is certain: `syn` can parse the body, and the body neither
    /// awaits nor calls a macro, because a macro could await.
    pub(crate) fn may_await(&self) -> bool {
        let Ok(statements) = Block::parse_within.parse2(self.rest.clone()) else {
            return true;
        };
        let mut awaits = Awaits(false);
        for statement in &statements {
            awaits.visit_stmt(statement);
        }
        awaits.0
    }
}

/// Whether something was found that may await.
struct Awaits(bool);

impl Visit<'_> for Awaits {
    fn visit_expr(&mut self, expr: &Expr) {
        // `syn` keeps syntax that it does not know as tokens.
        self.0 |= matches!(expr, Expr::Await(_) | Expr::Verbatim(_));
        visit::visit_expr(self, expr);
    }

    fn visit_macro(&mut self, _: &Macro) {
        self.0 = true;
    }
}

/// A future that is the value of a body: `async move {…}`, or the same in `Box::pin(…)`.
pub(crate) struct Future {
    /// The tokens in front of the future, without those of its box.
    pub(crate) before: TokenStream,
    /// `Box::pin`, and the parentheses behind it.
    pub(crate) boxed: Option<(TokenStream, Group)>,
    /// `async` or `async move`.
    pub(crate) words: TokenStream,
    pub(crate) is_move: bool,
    pub(crate) block: Group,
}

impl Future {
    /// The future with which the tokens of a body end.
    pub(crate) fn at_end_of(rest: &TokenStream) -> Option<Future> {
        let mut before: Vec<TokenTree> = rest.clone().into_iter().collect();
        let future = match before.pop()? {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
                let path = before.split_off(start_of_box(&before)?);
                let inside = Future::at_end_of(&group.stream())?;
                // The box must hold the future alone.
                if inside.boxed.is_some() || !inside.before.is_empty() {
                    return None;
                }
                Future {
                    boxed: Some((path.into_iter().collect(), group)),
                    ..inside
                }
            }
            block => {
                let block = braces(&block)?;
                let is_move = is_word(before.last(), "move");
                let start = before.len().checked_sub(1 + usize::from(is_move))?;
                let words = before.split_off(start);
                if !is_word(words.first(), "async") {
                    return None;
                }
                Future {
                    before: TokenStream::new(),
                    boxed: None,
                    words: words.into_iter().collect(),
                    is_move,
                    block,
                }
            }
        };
        ends_statement(before.last()).then(|| Future {
            before: before.into_iter().collect(),
            ..future
        })
    }
}

/// Where a path begins that ends in `Box::pin`, at the end of the tokens.
fn start_of_box(tokens: &[TokenTree]) -> Option<usize> {
    let is_path = |token: &&TokenTree| match token {
        TokenTree::Ident(_) => true,
        TokenTree::Punct(punct) => punct.as_char() == ':',
        _ => false,
    };
    let start = tokens.len() - tokens.iter().rev().take_while(is_path).count();
    let path = tokens[start..].iter().map(ToString::to_string);
    let path: String = path.collect();
    (path == "Box::pin" || path.ends_with("::Box::pin")).then_some(start)
}

/// Whether a statement may begin behind the token.
fn ends_statement(token: Option<&TokenTree>) -> bool {
    match token {
        None => true,
        Some(TokenTree::Punct(punct)) => punct.as_char() == ';',
        Some(token) => braces(token).is_some(),
    }
}

/// The words with which items begin.
const ITEM_WORDS: &str =
    "async const enum extern fn impl macro_rules mod pub static struct trait type union unsafe use";

/// Whether an item may begin with the token. False only if that is certain.
fn begins_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Punct(punct) => punct.as_char() == '#',
        TokenTree::Ident(word) => is_in(ITEM_WORDS, &word.to_string()),
        TokenTree::Group(_) | TokenTree::Literal(_) => false,
    }
}

/// How many tokens the leading items have.
fn end_of_items(tokens: &[TokenTree]) -> usize {
    let mut end = 0;
    while tokens.get(end).is_some_and(begins_item) {
        let item = &tokens[end..end + length(&tokens[end..])];
        match syn::parse2(item.iter().cloned().collect()) {
            // `name! {…}` is an item for `syn`, and a statement for the compiler.
            Ok(Item::Macro(called)) if called.ident.is_none() => break,
            Ok(_) => end += item.len(),
            Err(_) => break,
        }
    }
    end
}

/// Whether the tokens contain `name` in a place where it can be a variable.
pub(crate) fn mentions(tokens: TokenStream, name: &Ident) -> bool {
    mentions_word(tokens, &name.to_string())
}

fn mentions_word(tokens: TokenStream, name: &str) -> bool {
    // A name behind one dot is a field or a method; behind two it ends a range. Before a single colon
    // it is the field of a literal.
    let mut dots = 0;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if dots != 1 && word == name => {
                let field = matches!(
                    tokens.peek(),
                    Some(TokenTree::Punct(colon))
                        if colon.as_char() == ':' && colon.spacing() == Spacing::Alone
                );
                if !field {
                    return true;
                }
                dots = 0;
            }
            TokenTree::Group(group) if mentions_word(group.stream(), name) => return true,
            TokenTree::Punct(punct) if punct.as_char() == '.' => dots += 1,
            _ => dots = 0,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::Span;

    #[test]
    fn a_body_that_is_a_future() {
        let future = |text: &str| {
            let future = Future::at_end_of(&text.parse().expect("tokens"))?;
            let is_boxed = future.boxed.is_some();
            let parts = [future.before.to_string(), future.block.to_string()];
            Some((parts.concat().replace(' ', ""), is_boxed, future.is_move))
        };
        let found = |before: &str, is_boxed, is_move| Some((before.to_owned(), is_boxed, is_move));
        assert_eq!(future("async move { a }"), found("{a}", false, true));
        assert_eq!(
            future("let a = b; async { a }"),
            found("leta=b;{a}", false, false)
        );
        assert_eq!(
            future("Box::pin(async move { a })"),
            found("{a}", true, true)
        );
        assert_eq!(
            future("if a { b } ::std::boxed::Box::pin(async move { a })"),
            found("ifa{b}{a}", true, true)
        );
        for text in [
            "",
            "a(async move {})",
            "Box::new(async move {})",
            "MyBox::pin(async move {})",
            "Box::pin(a, async move {})",
            "Box::pin(async move {}.map(a))",
            "a = async move {}",
            "a + Box::pin(async move {})",
            "async move {};",
            "async move {}.boxed()",
            "async move |a| {}",
            "match a {}",
            "move {}",
        ] {
            assert_eq!(future(text), None, "{text}");
        }
    }

    fn split(text: &str) -> [String; 3] {
        let tokens: TokenStream = text.parse().expect("tokens");
        let body = Body::split(tokens.clone());
        let whole: TokenStream = [&body.attributes, &body.items, &body.rest]
            .into_iter()
            .cloned()
            .collect();
        assert_eq!(whole.to_string(), tokens.to_string(), "no token is lost");
        [body.attributes, body.items, body.rest].map(|part| part.to_string())
    }

    #[test]
    fn items_in_front_of_statements() {
        let [attributes, items, rest] = split(
            "#![allow(x)] #[cfg(y)] use a::b; const N: usize = { 3 }; fn f<T>() {} pub(crate) struct S; \
             macro_rules! m { () => {}; } impl S {} unsafe extern \"C\" { fn g(); } f(); fn h() {}",
        );
        assert!(
            attributes.ends_with("(x)]") && items.starts_with("# [cfg (y)]"),
            "{attributes} {items}"
        );
        assert!(items.ends_with("fn g () ; }"), "{items}");
        assert_eq!(rest, "f () ; fn h () { }");
    }

    #[test]
    fn items_in_every_form() {
        for text in [
            "async fn f() {}",
            "const async unsafe extern \"C\" fn f() {}",
            "const _: () = ();",
            "enum E { A }",
            "extern \"C\" fn f() {}",
            "extern crate c;",
            "extern {}",
            "impl<const N: usize> A<{ N }> for B where [(); { N }]: C {}",
            "macro_rules! m (() => {});",
            "mod m {}",
            "pub(crate) struct S<T>(T) where T: U;",
            "static mut N: u8 = { 1 };",
            "trait T { fn f(); }",
            "type N = fn() -> u8;",
            "union U { a: u8 }",
            "unsafe impl S for T {}",
            "unsafe extern \"C\" { fn g(); }",
            "use a::{b, c};",
        ] {
            let [_, items, rest] = split(&format!("#[x] {text} let a = 1;"));
            let text: TokenStream = text.parse().expect("tokens");
            assert_eq!(items, format!("# [x] {text}"));
            assert_eq!(rest, "let a = 1 ;", "{text}");
        }
    }

    #[test]
    fn what_looks_like_an_item_stays() {
        for text in [
            "const { assert!(true) } a",
            "unsafe { a() }",
            "async move { 1 }.await",
            "static || 1",
            "#[allow(x)] let a = 1;",
            "union(1)",
            "union as u8",
            "static move || 1",
            "async || 1",
            "#[allow(x)] unsafe { a() }",
            "macro_rules!(a)",
            "f(); const N: u8 = 1;",
            "unsafe static N: u8 = 1;",
            "",
        ] {
            let [attributes, items, rest] = split(text);
            assert!(attributes.is_empty(), "{text}");
            assert!(items.is_empty(), "{text}: {items}");
            assert!(!rest.is_empty() || text.is_empty(), "{text}");
        }
    }

    #[test]
    fn may_await_errs_on_the_safe_side() {
        let may_await = |text: &str| Body::split(text.parse().expect("tokens")).may_await();
        for text in [
            "x.await",
            "{ [x.await?] }",
            "select! { x }",
            "if a { b!(); }",
            "m! n {}",
            "p::m![]",
            "async { x.await }; y",
            "super let x = 1;",
            "let x = y.match { _ => 1 };",
        ] {
            assert!(may_await(text), "{text}");
        }
        for text in [
            "",
            "a != b",
            "!a(b)",
            "if a != (b) {}",
            "\"await\"",
            "awaits()",
            "async fn g() { x.await } g()",
        ] {
            assert!(!may_await(text), "{text}");
        }
    }

    #[test]
    fn mentions_variables_but_not_fields() {
        let body = Body::split("x.a.b(); 0..c; S { d, e: f } ; g".parse().expect("tokens"));
        let mentions =
            |name: &str| mentions(body.rest.clone(), &Ident::new(name, Span::call_site()));
        for name in ["x", "c", "d", "f", "g"] {
            assert!(mentions(name), "{name}");
        }
        for name in ["a", "b", "h"] {
            assert!(!mentions(name), "{name}");
        }
    }
}
