//! A whole scope: an `impl`, a trait or a module whose functions are traced, as far as they are worth it. A
//! function or scope inside that has an attribute of its own is left to that attribute. It must never change
//! a token outside the functions that it traces.

use std::cell::Cell;

use proc_macro2::{Group, Literal, Span, TokenStream, TokenTree};

use crate::code::code;
use crate::error::{Error, Result};
use crate::expand::expand;
use crate::items::{Attribute, Item, Kind, is_named, split};
use crate::options::Options;
use crate::parse::{Function, open_sole_group};
use crate::worth::{Reason, left_out};

/// An item that holds functions.
pub(crate) struct Scope {
    tokens: Vec<TokenTree>,
    item: Item,
    body: usize,
}

impl Scope {
    /// Nothing where the item is no `impl`, no trait and no module with a body.
    pub(crate) fn parse(item: TokenStream) -> Option<Scope> {
        let tokens = open_sole_group(item);
        let mut items = split(&tokens);
        let item = items.pop()?;
        let body = body_of(&item.kind)?;
        items.is_empty().then_some(Scope { tokens, item, body })
    }

    /// Refuses options that one function alone can have, and a second attribute.
    pub(crate) fn check(&self, options: &Options) -> Result<()> {
        if let Some(key) = &options.of_functions {
            let (option, why) = match is_named(key, "name") {
                true => ("name = \"…\"".to_owned(), ""),
                false => (key.to_string(), ", because values may be secrets"),
            };
            return Err(Error::new(
                key.span(),
                format!(
                    "`{key}` is for one function, and this is a scope of many{why}\n\
                     put `#[traced({option})]` on that function; it keeps its own options"
                ),
            ));
        }
        let attributes = self.tokens[..self.item.head].iter();
        for (attribute, token) in self
            .item
            .attributes(&self.tokens)
            .zip(attributes.skip(1).step_by(2))
        {
            if is_own(&attribute, options) {
                return Err(Error::new(
                    token.span(),
                    "`#[traced]` is here twice: each call would be recorded twice\n\
                     remove one of the two",
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn expand(&self, options: &Options) -> TokenStream {
        let mut options = options.clone();
        let rules = std::mem::take(&mut options.rules);
        options.auto = true;
        let options = ScopeOptions {
            krate: options
                .krate
                .as_ref()
                .map(|path| code!(Span::call_site()=> crate = #path)),
            rules,
            options,
            found: Found::default(),
        };
        let mut tokens = self.tokens.clone();
        options.trace_body(&mut tokens, self.body);
        if options.found.some_left_out.get() && !options.found.some_marked.get() {
            tokens.extend(warning());
        }
        tokens.into_iter().collect()
    }
}

/// A warning of the compiler at the attribute. A macro of stable Rust can only warn by the use of a deprecated item.
fn warning() -> TokenStream {
    let span = Span::call_site();
    let note = Literal::string(
        "`#[traced]` does nothing here: no function of this scope is worth two clock reads; \
         `#[traced(always)]` traces them all the same",
    );
    let note = TokenTree::Literal(note);
    code!(span=>
        const _: () = {
            #[deprecated(note = #note)]
            const NOTHING_IS_TRACED: () = ();
            NOTHING_IS_TRACED
        };
    )
}

fn body_of(kind: &Kind) -> Option<usize> {
    match *kind {
        Kind::Impl { body } | Kind::Trait { body, .. } => Some(body),
        Kind::Module { body, .. } => body,
        Kind::Function { .. } | Kind::Given | Kind::Other => None,
    }
}

/// What a scope hands down.
struct ScopeOptions {
    options: Options,
    rules: crate::worth::Rules,
    krate: Option<TokenStream>,
    found: Found,
}

/// What was found in a scope so far.
#[derive(Default)]
struct Found {
    /// A function that is traced, or that has an attribute of its own.
    some_marked: Cell<bool>,
    /// A function that the rules leave out, although it can be traced.
    some_left_out: Cell<bool>,
}

impl ScopeOptions {
    /// The scope's tokens in the group at `body`, which is replaced.
    fn trace_body(&self, tokens: &mut [TokenTree], body: usize) {
        if let TokenTree::Group(group) = &tokens[body] {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            // A macro's `$body` has the braces in a group of its own.
            let inside = match &inside[..] {
                [TokenTree::Group(_)] if group.delimiter() == proc_macro2::Delimiter::None => {
                    let mut inside = inside;
                    self.trace_body(&mut inside, 0);
                    inside.into_iter().collect()
                }
                _ => self.trace_items(inside),
            };
            let mut traced = Group::new(group.delimiter(), inside);
            traced.set_span(group.span());
            tokens[body] = TokenTree::Group(traced);
        }
    }

    fn trace_items(&self, mut tokens: Vec<TokenTree>) -> TokenStream {
        let mut traced = TokenStream::new();
        for item in split(&tokens) {
            let range = item.tokens.clone();
            if self.is_left_to_itself(&item, &tokens) {
                self.found.some_marked.set(true);
                self.hand_down_crate(&item, &mut tokens);
            } else if let Some(body) = body_of(&item.kind) {
                self.trace_body(&mut tokens, body);
            } else if item.kind == Kind::Given {
                self.trace_body(&mut tokens, item.head);
            } else {
                match left_out(&item, &tokens, &self.rules) {
                    None => {
                        let function = tokens[range.clone()].iter().cloned().collect();
                        if let Ok(function) = Function::parse(function) {
                            self.found.some_marked.set(true);
                            traced.extend(expand(&function, &self.options));
                            continue;
                        }
                    }
                    Some(Reason::Inline | Reason::Statements(_) | Reason::Small(_)) => {
                        self.found.some_left_out.set(true);
                    }
                    Some(Reason::Const | Reason::NoBody | Reason::Attribute(_)) => {}
                }
            }
            traced.extend(tokens[range].iter().cloned());
        }
        traced
    }

    /// Whether the item has an attribute of its own.
    fn is_left_to_itself(&self, item: &Item, tokens: &[TokenTree]) -> bool {
        item.attributes(tokens)
            .any(|attribute| is_own(&attribute, &self.options))
    }

    /// An attribute inside that does not name the crate finds it where the scope does.
    fn hand_down_crate(&self, item: &Item, tokens: &mut [TokenTree]) {
        let Some(krate) = &self.krate else {
            return;
        };
        for at in item.tokens.start..item.head {
            let TokenTree::Group(brackets) = &tokens[at] else {
                continue;
            };
            let attribute = Attribute::read(brackets);
            let options = attribute.arguments();
            if !is_traced(&attribute.path, &self.options) || names_crate(&options) {
                continue;
            }
            let skips = options.to_string() == "skip";
            if skips {
                continue;
            }
            let path: TokenStream = brackets
                .stream()
                .into_iter()
                .take_while(|token| !matches!(token, TokenTree::Group(_)))
                .collect();
            let comma = needs_comma(&options).then(|| code!(Span::call_site()=> ,));
            let mut with_crate = Group::new(
                brackets.delimiter(),
                code!(Span::call_site()=> #path(#options #comma #krate)),
            );
            with_crate.set_span(brackets.span());
            tokens[at] = TokenTree::Group(with_crate);
        }
    }
}

fn needs_comma(options: &TokenStream) -> bool {
    match options.clone().into_iter().last() {
        None => false,
        Some(TokenTree::Punct(punct)) => punct.as_char() != ',',
        Some(_) => true,
    }
}

fn names_crate(options: &TokenStream) -> bool {
    let tokens: Vec<TokenTree> = options.clone().into_iter().collect();
    tokens.windows(2).any(|pair| {
        matches!(&pair[0], TokenTree::Ident(word) if is_named(word, "crate"))
            && matches!(&pair[1], TokenTree::Punct(punct) if punct.as_char() == '=')
    })
}

/// Whether it is `#[traced]`, or becomes that under a condition.
fn is_own(attribute: &Attribute, options: &Options) -> bool {
    is_traced(&attribute.path, options)
        || (attribute.path == "cfg_attr" && attribute.says("traced"))
}

fn is_traced(path: &str, options: &Options) -> bool {
    if matches!(path, "traced" | "fdr::traced" | "::fdr::traced") {
        return true;
    }
    let krate = options
        .krate
        .as_ref()
        .map(|path| code!(Span::call_site()=> #path::traced));
    krate.is_some_and(|krate| krate.to_string().replace(' ', "") == path)
}
