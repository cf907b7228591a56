//! A whole scope: an `impl`, a trait or a module. Its functions are traced if they are worth it. A function or
//! scope inside that has an attribute of its own is handled by that attribute.

use fdr_marks::items::{Attribute, Item, Kind, is_word, split};
use fdr_marks::worth::{Reason, Rules, left_out};
use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Error, Meta, Result};

use crate::desugar::is_neutral;
use crate::expand::{expand, with_tokens};
use crate::options::Options;
use crate::parse::{Function, TWICE};

/// Whether the item holds functions: it is an `impl`, a trait or a module with a body.
pub(crate) fn is_scope(item: &Item) -> bool {
    matches!(item.kind, Kind::Impl | Kind::Trait | Kind::Module) && item.body.is_some()
}

/// Refuses options that one function alone can have, and a second attribute.
pub(crate) fn check(scope: &Item, options: &Options) -> Result<()> {
    if let Some(key) = &options.of_functions {
        let (option, why) = match key == "name" {
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
    let mut attributes = scope.attributes.iter();
    match attributes.find(|attribute| is_own(attribute, options)) {
        Some(second) => Err(Error::new(second.brackets.span(), TWICE)),
        None => Ok(()),
    }
}

/// The scope with its functions traced.
pub(crate) fn expand_scope(scope: Item, mut options: Options) -> TokenStream {
    let rules = std::mem::take(&mut options.rules);
    options.auto = true;
    let mut tracer = Tracer {
        options,
        rules,
        some_marked: false,
        some_left_out: false,
    };
    let mut tokens = tracer.traced(scope);
    if tracer.some_left_out && !tracer.some_marked {
        tokens.extend(warning());
    }
    tokens
}

/// A warning of the compiler at the attribute. A macro of stable Rust can only warn by the use of a deprecated item.
fn warning() -> TokenStream {
    let note = "`#[traced]` does nothing here: no function of this scope is worth two clock reads; \
                `#[traced(always)]` traces them all the same";
    quote_spanned!(Span::call_site()=>
        const _: () = {
            #[deprecated(note = #note)]
            const NOTHING_IS_TRACED: () = ();
            NOTHING_IS_TRACED
        };
    )
}

/// The options of a scope, and what was found in it so far.
struct Tracer {
    options: Options,
    rules: Rules,
    /// Whether a function is traced, or has an attribute of its own.
    some_marked: bool,
    /// A function that the rules leave out, although it can be traced.
    some_left_out: bool,
}

impl Tracer {
    /// The tokens of an `impl`, a trait or a module.
    fn traced(&mut self, mut scope: Item) -> TokenStream {
        let desugars = self.options.desugars;
        // The compiler warns of `async` in a trait.
        self.options.desugars &=
            scope.kind != Kind::Trait && scope.attributes.iter().all(is_neutral);
        scope.body = scope.body.map(|body| self.traced_inside(&body));
        self.options.desugars = desugars;
        scope.into_tokens().collect()
    }

    fn traced_inside(&mut self, group: &Group) -> Group {
        let items = split(group.stream()).flat_map(|item| self.traced_item(item));
        with_tokens(group, items.collect())
    }

    fn traced_item(&mut self, mut item: Item) -> TokenStream {
        if item
            .attributes
            .iter()
            .any(|attribute| is_own(attribute, &self.options))
        {
            self.some_marked = true;
            self.hand_down_crate(&mut item);
        } else if is_scope(&item) {
            return self.traced(item);
        } else if let (Kind::Tokens, [TokenTree::Group(given)]) = (item.kind, &item.head[..]) {
            item.head = vec![TokenTree::Group(self.traced_inside(given))];
        } else {
            match left_out(&item, &self.rules) {
                None => {
                    if let Ok(function) = Function::from_item(item.clone()) {
                        self.some_marked = true;
                        return expand(function, &self.options);
                    }
                }
                Some(Reason::Inline | Reason::Statements(_) | Reason::Small(_)) => {
                    self.some_left_out = true;
                }
                Some(Reason::Const | Reason::NoBody | Reason::Attribute(_)) => {}
            }
        }
        item.into_tokens().collect()
    }

    /// An attribute inside that does not name the crate finds it where the scope does.
    fn hand_down_crate(&self, item: &mut Item) {
        let Some(krate) = &self.options.krate else {
            return;
        };
        for attribute in &mut item.attributes {
            let options = attribute.arguments();
            let skips = options.to_string() == "skip";
            if skips || !is_traced(&attribute.path, &self.options) || names_crate(&options) {
                continue;
            }
            let brackets = &attribute.brackets;
            let Ok(meta) = syn::parse2::<Meta>(brackets.stream()) else {
                continue;
            };
            let path = meta.path();
            let with_crate = quote_spanned!(Span::call_site()=> #path(crate = #krate, #options));
            attribute.brackets = with_tokens(brackets, with_crate);
        }
    }
}

fn names_crate(options: &TokenStream) -> bool {
    let mut options = options.clone().into_iter();
    options.any(|token| is_word(Some(&token), "crate"))
}

/// Whether it is `#[traced]`, or becomes that under a condition.
fn is_own(attribute: &Attribute, options: &Options) -> bool {
    is_traced(&attribute.path, options)
        || (attribute.path == "cfg_attr" && attribute.contains_word("traced"))
}

fn is_traced(path: &str, options: &Options) -> bool {
    if matches!(path, "traced" | "fdr::traced" | "::fdr::traced") {
        return true;
    }
    let krate = options
        .krate
        .as_ref()
        .map(|path| path.to_token_stream().to_string().replace(' ', ""));
    krate.is_some_and(|krate| path.strip_prefix(&*krate) == Some("::traced"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::sole_item;

    #[test]
    fn functions_stay_async_before_other_macros() {
        let is_async = |scope: &str| {
            let function = "pub async fn a(b: u8) { for c in d { c.await } }";
            let scope = sole_item(scope.replace("@", function).parse().expect("tokens"));
            let options = Options {
                desugars: true,
                ..Options::default()
            };
            let expanded = expand_scope(scope, options).to_string();
            assert_ne!(
                expanded.contains("async fn a"),
                expanded.contains("Output = ()")
            );
            expanded.contains("async fn a")
        };
        for scope in [
            "mod e { @ }",
            "#[allow(f)] mod e { #[cfg(g)] impl H { @ } }",
            "impl H for I { @ }",
        ] {
            assert!(!is_async(scope), "{scope}");
        }
        for scope in [
            "trait E { @ }",
            "#[async_trait] impl H for I { @ }",
            "mod e { #[cfg_attr(f, g)] impl H for I { @ } }",
            "mod e { mod f {} trait G { @ } }",
            "#[h] mod e { mod f { @ } }",
            "mod e { #[test] @ }",
        ] {
            assert!(is_async(scope), "{scope}");
        }
    }
}
