//! From an item's tokens to a [`Function`]: where its name is, whether it is `async`, where the body begins. It reads
//! no further than that. Signature and body are kept token for token. So newer syntax passes, and spans stay those of
//! the source. It must never change or reorder a token.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use crate::error::{Error, Result};
use crate::items::{braces, is_punct};
use crate::params::parentheses_at;

/// A function with a body, cut where the expansion needs it.
#[derive(Debug)]
pub(crate) struct Function {
    /// Attributes, visibility and signature, unchanged.
    pub(crate) head: Vec<TokenTree>,
    /// Where in `head` the generics or parameters begin.
    pub(crate) after_name: usize,
    pub(crate) name: Ident,
    pub(crate) is_async: bool,
    /// The braces and what they hold.
    pub(crate) body: Group,
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> Result<Function> {
        let mut head = open_sole_group(item);
        let start = skip_attributes(&head)?;
        let qualifiers = Qualifiers::read(&head, start)?;
        let Some(TokenTree::Ident(name)) = head.get(qualifiers.name_at).cloned() else {
            return Err(not_a_function(&head[start..]));
        };
        if let Some(span) = qualifiers.constness {
            return Err(Error::new(
                span,
                "`#[traced]` cannot be on a `const fn`: recording reads a clock, and there is none \
                 at compile time\n\
                 remove `const`, or put `#[traced]` on a function that calls this one",
            ));
        }
        let body = head.pop().as_ref().and_then(braces).ok_or_else(|| {
            Error::new(
                name.span(),
                "`#[traced]` needs a function with a body: it records where the body begins and ends\n\
                 put it on the implementations of this function, or on a function that calls it",
            )
        })?;
        let after_name = qualifiers.name_at + 1;
        Ok(Function {
            head,
            after_name,
            name,
            is_async: qualifiers.is_async,
            body,
        })
    }

    /// The first token of the return type, where one is written.
    fn output(&self) -> Option<&TokenTree> {
        let signature = &self.head[self.after_name..];
        let behind = parentheses_at(signature)? + 1;
        let is_arrow =
            is_punct(signature.get(behind), '-') && is_punct(signature.get(behind + 1), '>');
        signature.get(behind + 2).filter(|_| is_arrow)
    }

    /// Whether it returns `!`.
    /// Whether a type of the result is written.
    pub(crate) fn returns(&self) -> bool {
        self.output().is_some()
    }

    pub(crate) fn diverges(&self) -> bool {
        match self.output() {
            Some(TokenTree::Punct(punct)) => punct.as_char() == '!',
            // A type that a macro was given.
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::None => {
                group.stream().to_string() == "!"
            }
            _ => false,
        }
    }
}

/// What stands between a function's attributes and its name.
struct Qualifiers {
    constness: Option<Span>,
    is_async: bool,
    name_at: usize,
}

impl Qualifiers {
    fn read(tokens: &[TokenTree], start: usize) -> Result<Qualifiers> {
        let mut constness = None;
        let mut is_async = false;
        for (at, token) in tokens.iter().enumerate().skip(start) {
            match token {
                TokenTree::Ident(word) => match word.to_string().as_str() {
                    "fn" => {
                        return Ok(Qualifiers {
                            constness,
                            is_async,
                            name_at: at + 1,
                        });
                    }
                    "const" => constness = Some(word.span()),
                    "async" => is_async = true,
                    "pub" | "default" | "unsafe" | "safe" | "extern" => {}
                    _ => break,
                },
                // The ABI after `extern`.
                TokenTree::Literal(_) => {}
                // The place after `pub`, and the `$vis` of a macro.
                TokenTree::Group(group)
                    if matches!(group.delimiter(), Delimiter::Parenthesis | Delimiter::None) => {}
                TokenTree::Group(_) | TokenTree::Punct(_) => break,
            }
        }
        Err(not_a_function(&tokens[start..]))
    }
}

/// Where the attributes end. Refuses those that the expansion cannot work with.
fn skip_attributes(tokens: &[TokenTree]) -> Result<usize> {
    let mut at = 0;
    while let [TokenTree::Punct(hash), TokenTree::Group(attribute), ..] = &tokens[at..] {
        if hash.as_char() != '#' {
            break;
        }
        let text: String = attribute
            .stream()
            .into_iter()
            .map(|token| token.to_string())
            .collect();
        if matches!(text.as_str(), "naked" | "unsafe(naked)") {
            return Err(Error::new(
                attribute.span(),
                "`#[traced]` cannot be on a naked function: its body is assembly and nothing else\n\
                 put `#[traced]` on a function that calls this one",
            ));
        }
        if matches!(
            text.split('(').next(),
            Some("traced" | "fdr::traced" | "::fdr::traced")
        ) {
            return Err(Error::new(
                attribute.span(),
                "`#[traced]` is here twice: each call would be recorded twice\n\
                 remove one of the two",
            ));
        }
        at += 2;
    }
    Ok(at)
}

/// The item's tokens. A macro's `$item` arrives in a group without delimiters.
pub(crate) fn open_sole_group(item: TokenStream) -> Vec<TokenTree> {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    loop {
        match &tokens[..] {
            [TokenTree::Group(group)] if group.delimiter() == Delimiter::None => {
                tokens = group.stream().into_iter().collect();
            }
            _ => return tokens,
        }
    }
}

/// Says what the item is instead, at the word that says so in the source.
fn not_a_function(tokens: &[TokenTree]) -> Error {
    const CALLER: &str = "put `#[traced]` on the functions that use it";
    let start = tokens.first().map_or_else(Span::call_site, TokenTree::span);
    let error = |what: &str, instead: &str, span: Span| {
        let text = format!(
            "`#[traced]` goes on functions, `impl` blocks, traits and modules, and this is {what}\n{instead}"
        );
        Error::new(span, text)
    };
    let mut is_const = false;
    let mut is_extern = false;
    for token in tokens {
        let TokenTree::Ident(word) = token else {
            continue;
        };
        let (what, instead) = match word.to_string().as_str() {
            "mod" => (
                "a module in a file of its own",
                "put it on the items in that file, or run `cargo fdr instrument`",
            ),
            "trait" => ("an alias of traits", "put it on the traits themselves"),
            "struct" => ("a struct", CALLER),
            "enum" => ("an enum", CALLER),
            "union" => ("a union", CALLER),
            "static" => ("a static", CALLER),
            "type" => ("a type", CALLER),
            "use" | "crate" if !is_const => ("an import", "put it where the function is defined"),
            "macro_rules" => (
                "a macro",
                "put it on the functions that the macro expands to",
            ),
            "const" => {
                is_const = true;
                continue;
            }
            "extern" => {
                is_extern = true;
                continue;
            }
            "pub" | "unsafe" | "auto" => continue,
            _ => break,
        };
        return error(what, instead, word.span());
    }
    match (is_const, is_extern) {
        (true, _) => error("a constant", CALLER, start),
        (_, true) => error("an `extern` block", CALLER, start),
        _ => error(
            "none",
            "put it on the functions that are called here",
            start,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Function> {
        Function::parse(text.parse().expect("tokens"))
    }

    fn output(text: &str) -> String {
        let function = parse(text).expect("a function");
        function
            .output()
            .map_or_else(String::new, TokenTree::to_string)
    }

    #[test]
    fn every_kind_of_head() {
        for (text, name, is_async) in [
            ("fn a() {}", "a", false),
            (
                "#[inline] #[doc = \"x\"] pub(in a::b) async fn r#b<T>(x: T) -> T where T: C {}",
                "r#b",
                true,
            ),
            ("pub unsafe extern \"C\" fn c(_: ...) {}", "c", false),
            ("default async unsafe fn d() {}", "d", true),
            (
                "extern fn e<const N: usize>() where [(); { N }]: {}",
                "e",
                false,
            ),
        ] {
            let function = parse(text).expect(text);
            assert_eq!(function.name.to_string(), name);
            assert_eq!(function.is_async, is_async, "{text}");
            assert_eq!(function.head[function.after_name - 1].to_string(), name);
            assert!(function.body.stream().is_empty());
        }
    }

    #[test]
    fn groups_that_macros_leave_are_looked_into() {
        let group = |text: &str| {
            TokenTree::Group(Group::new(Delimiter::None, text.parse().expect("tokens")))
        };
        let parts = [group("pub"), group(""), group("{ x }")];
        let [vis, empty, body] = parts;
        let name: TokenStream = "fn a()".parse().expect("tokens");
        let whole: TokenStream = [vis, empty].into_iter().chain(name).chain([body]).collect();
        let whole = TokenTree::Group(Group::new(Delimiter::None, whole));
        let function = Function::parse(whole.into()).expect("a function");
        assert_eq!(function.name.to_string(), "a");
        assert_eq!(function.body.to_string(), "{ x }");
    }

    #[test]
    fn return_types() {
        assert_eq!(output("fn a() {}"), "");
        assert_eq!(output("fn a() where F: Fn() -> ! {}"), "");
        assert_eq!(
            output("fn a<F: Fn(u8) -> u8, const N: u8>(f: F) -> Vec<F> where G: H {}"),
            "Vec"
        );
        assert!(
            parse("fn a<F: Fn(u8) -> u8>(f: F) -> ! {}")
                .expect("a function")
                .diverges()
        );
        assert!(
            !parse("fn a<F: Fn() -> !>() -> u8 {}")
                .expect("a function")
                .diverges()
        );
    }

    #[test]
    fn what_is_no_function_is_named() {
        for (text, part) in [
            ("const fn a() {}", "`const fn`"),
            ("pub const unsafe fn a() {}", "`const fn`"),
            ("fn a();", "with a body"),
            ("#[unsafe(naked)] extern \"C\" fn a() {}", "naked"),
            ("pub struct A;", "a struct"),
            ("enum A {}", "an enum"),
            ("union A {}", "a union"),
            ("pub(crate) mod a;", "a module in a file"),
            ("trait A = B + C;", "an alias"),
            ("static A: u8 = 1;", "a static"),
            ("type A = u8;", "a type"),
            ("use a::b;", "an import"),
            ("extern crate a;", "an import"),
            ("macro_rules! a { () => {} }", "a macro"),
            ("const A: fn() = b;", "a constant"),
            ("extern \"C\" { fn a(); }", "an `extern` block"),
            ("fn (a) {}", "this is none"),
            ("let a = 1;", "this is none"),
            ("|| 1", "this is none"),
            ("", "this is none"),
        ] {
            let message = parse(text).expect_err(text).to_string();
            assert!(message.contains(part), "{text}: {message}");
            assert!(
                message.contains("put") || message.contains("remove"),
                "{text}: {message}"
            );
        }
    }
}
