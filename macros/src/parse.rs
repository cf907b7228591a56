//! From an item to a [`Function`]: its name, whether it is `async`, where the body begins. Signature and body are kept
//! token for token. So newer syntax passes, and spans stay those of the source.

use fdr_marks::items::{Attribute, Item, Kind, split};
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use syn::{Error, Result, ReturnType, Signature, Type};

/// A function with a body, cut where the expansion needs it.
pub(crate) struct Function {
    /// Attributes, visibility and signature.
    pub(crate) item: Item,
    pub(crate) name: Ident,
    pub(crate) is_async: bool,
    /// The braces and the tokens inside.
    pub(crate) body: Group,
}

impl Function {
    /// # Errors
    /// What the item is instead, or what it must not have.
    pub(crate) fn from_item(mut item: Item) -> Result<Function> {
        item.attributes.iter().try_for_each(check_attribute)?;
        let name = item.name().filter(|_| item.kind == Kind::Function);
        let Some(name) = name.cloned() else {
            return Err(not_a_function(&item));
        };
        if let Some(constness) = item.qualifier("const") {
            return Err(Error::new(
                constness.span(),
                "`#[traced]` cannot be on a `const fn`: recording reads a clock, and there is none \
                 at compile time\n\
                 remove `const`, or put `#[traced]` on a function that calls this one",
            ));
        }
        let is_async = item.qualifier("async").is_some();
        let body = item.body.take().ok_or_else(|| {
            Error::new(
                name.span(),
                "`#[traced]` needs a function with a body: it records where the body begins and ends\n\
                 put it on the implementations of this function, or on a function that calls it",
            )
        })?;
        Ok(Function {
            item,
            name,
            is_async,
            body,
        })
    }

    /// The signature as `syn` parses it. `None` if the signature has newer syntax.
    pub(crate) fn signature(&self) -> Option<Signature> {
        let signature = self.item.head[self.item.word_at..].iter().cloned();
        syn::parse2(signature.collect()).ok()
    }

    /// The tokens, with another body.
    pub(crate) fn with_body(mut self, body: Group) -> TokenStream {
        self.item.body = Some(body);
        self.item.into_tokens().collect()
    }
}

/// Whether the function returns `!`.
pub(crate) fn diverges(signature: &Signature) -> bool {
    let ReturnType::Type(_, ty) = &signature.output else {
        return false;
    };
    let mut ty = &**ty;
    // A type that a macro was given.
    while let Type::Group(group) = ty {
        ty = &group.elem;
    }
    matches!(ty, Type::Never(_))
}

/// Refuses an attribute that the expansion cannot work with.
fn check_attribute(attribute: &Attribute) -> Result<()> {
    let is_unsafe = attribute.path == "unsafe" && attribute.contains_word("naked");
    let text = match attribute.path.as_str() {
        "naked" => NAKED,
        "unsafe" if is_unsafe => NAKED,
        "traced" | "fdr::traced" | "::fdr::traced" => TWICE,
        _ => return Ok(()),
    };
    Err(Error::new(attribute.brackets.span(), text))
}

const NAKED: &str = "`#[traced]` cannot be on a naked function: its body is assembly and nothing else\n\
    put `#[traced]` on a function that calls this one";

pub(crate) const TWICE: &str = "`#[traced]` is here twice: each call would be recorded twice\n\
    remove one of the two";

/// The item that the tokens are. A macro's `$item` arrives in a group without delimiters.
pub(crate) fn sole_item(tokens: TokenStream) -> Item {
    let item = split(tokens).next().unwrap_or_default();
    match &item.head[..] {
        [TokenTree::Group(given)] if item.kind == Kind::Tokens && item.attributes.is_empty() => {
            sole_item(given.stream())
        }
        _ => item,
    }
}

/// The error for an item that is no function. It names the kind of the item, and points at the item's keyword.
fn not_a_function(item: &Item) -> Error {
    const CALLER: &str = "put `#[traced]` on the functions that use it";
    let word = item.head.get(item.word_at);
    let word = word.filter(|word| matches!(word, TokenTree::Ident(_)));
    let (what, instead) = match word.map(ToString::to_string).unwrap_or_default().as_str() {
        "mod" => (
            "a module in a file of its own",
            "put it on the items in that file, or run `cargo fdr instrument`",
        ),
        "trait" => ("an alias of traits", "put it on the traits themselves"),
        "struct" => ("a struct", CALLER),
        "enum" => ("an enum", CALLER),
        "union" => ("a union", CALLER),
        "static" => ("a static", CALLER),
        "const" => ("a constant", CALLER),
        "type" => ("a type", CALLER),
        "use" | "crate" => ("an import", "put it where the function is defined"),
        "macro_rules" => (
            "a macro",
            "put it on the functions that the macro expands to",
        ),
        _ if item.qualifier("extern").is_some() => ("an `extern` block", CALLER),
        _ => ("none", "put it on the functions that are called here"),
    };
    let token = word.or(item.head.first());
    let span = token.map_or_else(Span::call_site, TokenTree::span);
    let text = format!(
        "`#[traced]` goes on functions, `impl` blocks, traits and modules, and this is {what}\n{instead}"
    );
    Error::new(span, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::Delimiter;

    fn parse(text: &str) -> Result<Function> {
        Function::from_item(sole_item(text.parse().expect("tokens")))
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
            let signature = function.signature().expect(text);
            assert_eq!(signature.ident.to_string(), name);
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
        let function = Function::from_item(sole_item(whole.into())).expect("a function");
        assert_eq!(function.name.to_string(), "a");
        assert_eq!(function.body.to_string(), "{ x }");
    }

    #[test]
    fn return_types() {
        for (text, diverging) in [
            ("fn a() {}", false),
            ("fn a() where F: Fn() -> ! {}", false),
            ("fn a<F: Fn(u8) -> u8>(f: F) -> ! {}", true),
            ("fn a<F: Fn() -> !>() -> u8 {}", false),
        ] {
            let function = parse(text).expect("a function");
            let signature = function.signature().expect("a signature");
            assert_eq!(diverges(&signature), diverging, "{text}");
        }
    }

    #[test]
    fn a_signature_of_newer_syntax_is_no_mistake() {
        for text in ["fn a(&pin const self) {}", "fn a(b: u8 = 3) -> ! {}"] {
            assert!(parse(text).expect("a function").signature().is_none());
        }
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
            let message = parse(text).err().expect(text).to_string();
            assert!(message.contains(part), "{text}: {message}");
            assert!(
                message.contains("put") || message.contains("remove"),
                "{text}: {message}"
            );
        }
    }
}
