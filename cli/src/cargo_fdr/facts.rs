//! Facts about an item, taken from its tokens: the name that it gives to what is inside, and the file of a module. Also
//! whether it is a test, and whether an attribute decides about it.

use fdr_marks::items::{Attribute, Item, Kind};
use fdr_marks::worth::Rules;
use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::LitStr;
use syn::ext::IdentExt;

use crate::marks::Step;

pub(crate) fn qualified(scope: &str, name: &str) -> String {
    match name.strip_prefix('<') {
        Some(rest) => format!("<{scope}::{rest}"),
        // A name in `<Type as Trait>` is behind it.
        None => format!("{scope}::{name}"),
    }
}

/// The name that an item gives to what is in it.
pub(crate) fn scope_name(item: &Item) -> Option<String> {
    match item.kind {
        Kind::Module | Kind::Trait => item.name().map(|name| name.unraw().to_string()),
        Kind::Impl => Some(impl_name(&item.head[item.word_at + 1..])),
        _ => None,
    }
}

/// `Type`, or `<Type as Trait>`, without arguments.
fn impl_name(head: &[TokenTree]) -> String {
    let mut parts = vec![String::new()];
    let (mut depth, mut is_arrow) = (0_usize, false);
    for token in head {
        let text = match token {
            TokenTree::Punct(punct) if punct.as_char() == '<' => {
                depth += 1;
                continue;
            }
            TokenTree::Punct(punct) if punct.as_char() == '>' && !is_arrow => {
                depth = depth.saturating_sub(1);
                continue;
            }
            TokenTree::Ident(word) if depth == 0 && word == "for" => {
                parts.push(String::new());
                continue;
            }
            TokenTree::Ident(word) if depth == 0 && word == "where" => break,
            token => token.to_string().replace(' ', ""),
        };
        is_arrow = text == "-";
        if depth == 0
            && let Some(part) = parts.last_mut()
        {
            part.push_str(&text);
        }
    }
    match &parts[..] {
        [one] => one.clone(),
        [role, .., subject] => format!("<{subject} as {role}>"),
        [] => String::new(),
    }
}

pub(crate) fn step(item: &Item, name: &Ident, is_test: bool) -> Step {
    let mut files = Vec::new();
    let mut is_fixed = false;
    for attribute in &item.attributes {
        match attribute.path.as_str() {
            "path" => {
                is_fixed = true;
                files.extend(attribute.rest.clone().into_iter().find_map(string));
            }
            "cfg_attr" => paths_in(attribute.arguments(), &mut files),
            _ => {}
        }
    }
    Step {
        name: name.unraw().to_string(),
        files,
        is_fixed,
        is_test,
    }
}

/// What stands behind `path =` in the arguments of `cfg_attr`.
fn paths_in(tokens: TokenStream, files: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for window in tokens.windows(3) {
        if let [TokenTree::Ident(word), TokenTree::Punct(_), value] = window
            && word == "path"
        {
            files.extend(string(value.clone()));
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            paths_in(group.stream(), files);
        }
    }
}

/// The text of a string literal.
fn string(token: TokenTree) -> Option<String> {
    let literal: Option<LitStr> = syn::parse2(token.into()).ok();
    literal.map(|literal| literal.value())
}

/// What a person's attribute decides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    Skip,
    /// On a scope, with these rules.
    Trace(Rules),
}

/// What a person has decided about the item.
pub(crate) fn decision(item: &Item) -> Option<Decision> {
    let attribute = item
        .attributes
        .iter()
        .find(|attribute| is_traced(attribute))?;
    let options: Vec<TokenTree> = options(attribute).into_iter().collect();
    let has = |word: &str| {
        let mut idents = options.iter();
        idents.any(|token| matches!(token, TokenTree::Ident(ident) if ident == word))
    };
    if has("skip") {
        return Some(Decision::Skip);
    }
    let min_statements = options.windows(3).find_map(|window| match window {
        [TokenTree::Ident(word), _, TokenTree::Literal(least)] if word == "min_statements" => {
            least.to_string().parse().ok()
        }
        _ => None,
    });
    Some(Decision::Trace(Rules {
        always: has("always"),
        min_statements,
        skip_inline: has("skip_inline"),
    }))
}

/// The options of `#[traced(…)]`, also of one under a condition.
fn options(attribute: &Attribute) -> TokenStream {
    if attribute.path != "cfg_attr" {
        return attribute.arguments();
    }
    let tokens: Vec<TokenTree> = attribute.arguments().into_iter().collect();
    let options = tokens.windows(2).find_map(|pair| match pair {
        [TokenTree::Ident(word), TokenTree::Group(options)] if word == "traced" => {
            Some(options.stream())
        }
        _ => None,
    });
    options.unwrap_or_default()
}

/// Whether it is `#[traced]`, and a person wrote it.
fn is_traced(attribute: &Attribute) -> bool {
    let path = &attribute.path;
    let is_traced = path == "traced" || path.ends_with("::traced");
    (is_traced && !is_mark(attribute)) || (path == "cfg_attr" && attribute.contains_word("traced"))
}

/// `#[test]` and its like, `#[cfg(test)]`, `#[cfg(all(test, …))]`.
pub(crate) fn is_test(attribute: &Attribute) -> bool {
    let name = attribute.path.rsplit(':').next();
    match name {
        Some("test" | "bench") => true,
        Some("cfg") => needs_test(attribute.arguments()),
        _ => false,
    }
}

fn needs_test(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Ident(word) if word == "test" => true,
        TokenTree::Group(group) => {
            matches!(at.checked_sub(1).map(|at| &tokens[at]), Some(TokenTree::Ident(all)) if all == "all")
                && needs_test(group.stream())
        }
        _ => false,
    })
}

/// Whether this tool wrote the attribute.
pub(crate) fn is_mark(attribute: &Attribute) -> bool {
    let is_traced = attribute.path.ends_with("::traced");
    let first = attribute.arguments().into_iter().next();
    is_traced && matches!(first, Some(TokenTree::Ident(word)) if word == "auto")
}
