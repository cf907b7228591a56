//! The items of a module, an `impl` or a trait, found in tokens alone: where each begins and ends, its
//! attributes, and its body. Types, expressions and macros are stepped over, so syntax that is new to this
//! file passes. The tool `cargo fdr` uses this file, too. It must never change or reorder a token.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// What an item is, as far as functions can be found in it. Numbers are indices into the scope's tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Function {
        name: usize,
        is_const: bool,
        /// The braces. A declaration has none.
        body: Option<usize>,
    },
    Impl {
        body: usize,
    },
    Trait {
        name: usize,
        body: usize,
    },
    Module {
        name: usize,
        /// A module in a file of its own has none.
        body: Option<usize>,
    },
    /// Items that a macro was given, in a group without delimiters.
    Given,
    /// All that holds no functions of the scope.
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// With its attributes.
    pub(crate) tokens: Range<usize>,
    /// Where its attributes end.
    pub(crate) head: usize,
    pub(crate) kind: Kind,
}

impl Item {
    /// Its outer attributes: the content of their brackets.
    pub(crate) fn attributes<'a>(
        &self,
        tokens: &'a [TokenTree],
    ) -> impl Iterator<Item = Attribute> + use<'a> {
        let attributes = tokens[self.tokens.start..self.head].iter();
        attributes.filter_map(|token| match token {
            TokenTree::Group(group) => Some(Attribute::read(group)),
            _ => None,
        })
    }
}

/// What stands in the brackets of an attribute.
pub(crate) struct Attribute {
    /// Such as `inline`, `fdr::traced`, `unsafe`.
    pub(crate) path: String,
    /// What is behind the path: one group, or `= value`.
    pub(crate) rest: TokenStream,
}

impl Attribute {
    pub(crate) fn read(brackets: &Group) -> Attribute {
        let mut path = String::new();
        let mut tokens = brackets.stream().into_iter().peekable();
        // A macro's `$meta` is in a group without delimiters.
        match tokens.peek() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::None => {
                return Attribute::read(group);
            }
            _ => {}
        }
        while let Some(token) = tokens.peek() {
            match token {
                TokenTree::Ident(word) => path += &word.to_string(),
                TokenTree::Punct(punct) if punct.as_char() == ':' => path.push(':'),
                _ => break,
            }
            tokens.next();
        }
        Attribute {
            path,
            rest: tokens.collect(),
        }
    }

    /// What stands in its parentheses.
    pub(crate) fn arguments(&self) -> TokenStream {
        match self.rest.clone().into_iter().next() {
            Some(TokenTree::Group(group)) => group.stream(),
            _ => TokenStream::new(),
        }
    }

    /// Whether the word stands anywhere in its arguments.
    pub(crate) fn says(&self, word: &str) -> bool {
        says(self.rest.clone(), word)
    }
}

fn says(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => is_named(&ident, word),
        TokenTree::Group(group) => says(group.stream(), word),
        _ => false,
    })
}

/// The items of a scope's tokens, in order and without gaps.
pub(crate) fn split(tokens: &[TokenTree]) -> Vec<Item> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let item = next_item(tokens, at);
        at = item.tokens.end;
        items.push(item);
    }
    items
}

/// The item that begins at `start`, if one does.
pub(crate) fn next_item(tokens: &[TokenTree], start: usize) -> Item {
    let other = |head, end| Item {
        tokens: start..end,
        head,
        kind: Kind::Other,
    };
    if is_punct(tokens.get(start), '#') && is_punct(tokens.get(start + 1), '!') {
        return other(start, (start + 3).min(tokens.len()));
    }
    let mut at = start;
    while is_punct(tokens.get(at), '#') && matches!(tokens.get(at + 1), Some(TokenTree::Group(_))) {
        at += 2;
    }
    let head = at;
    match tokens.get(at) {
        Some(TokenTree::Group(group)) if group.delimiter() != Delimiter::None => {}
        Some(TokenTree::Group(group)) if is_visibility(group) => at += 1,
        Some(TokenTree::Group(_)) => {
            return Item {
                tokens: start..at + 1,
                head,
                kind: Kind::Given,
            };
        }
        _ => {}
    }
    if is_word(tokens.get(at), "pub") {
        at += 1;
        let place = |group: &Group| group.delimiter() == Delimiter::Parenthesis;
        at += usize::from(matches!(tokens.get(at), Some(TokenTree::Group(group)) if place(group)));
    }
    let (end, kind) = behind_visibility(tokens, at);
    // Each step goes on, whatever the tokens are.
    let end = end.clamp(start + 1, tokens.len());
    Item {
        tokens: start..end,
        head,
        kind,
    }
}

/// Where the item ends, and what it is.
fn behind_visibility(tokens: &[TokenTree], mut at: usize) -> (usize, Kind) {
    let mut is_const = false;
    loop {
        let Some(TokenTree::Ident(word)) = tokens.get(at) else {
            return (end_of_macro(tokens, at), Kind::Other);
        };
        let next = tokens.get(at + 1);
        match word.to_string().as_str() {
            "fn" => {
                let (end, body) = end_of_body(tokens, at + 1);
                let name = at + 1;
                let kind = Kind::Function {
                    name,
                    is_const,
                    body,
                };
                return (end, kind);
            }
            "impl" => {
                let (end, body) = end_of_body(tokens, at + 1);
                return (end, body.map_or(Kind::Other, |body| Kind::Impl { body }));
            }
            "trait" if is_ident(next) => {
                let (end, body) = end_of_body(tokens, at + 1);
                let name = at + 1;
                let kind = body.map_or(Kind::Other, |body| Kind::Trait { name, body });
                return (end, kind);
            }
            "mod" => {
                let (end, body) = end_of_body(tokens, at + 1);
                let name = at + 1;
                return (end, Kind::Module { name, body });
            }
            "struct" | "enum" => return (end_of_body(tokens, at + 1).0, Kind::Other),
            "union" if is_ident(next) => return (end_of_body(tokens, at + 1).0, Kind::Other),
            "static" | "type" | "use" => return (behind_semicolon(tokens, at), Kind::Other),
            "const" => match next {
                Some(TokenTree::Ident(next)) if leads_to_item(next) => is_const = true,
                _ => return (behind_semicolon(tokens, at), Kind::Other),
            },
            "extern" => {
                at += usize::from(matches!(next, Some(TokenTree::Literal(_))));
                match tokens.get(at + 1) {
                    Some(token) if braces(token).is_some() => return (at + 2, Kind::Other),
                    Some(TokenTree::Ident(word)) if is_named(word, "crate") => {
                        return (behind_semicolon(tokens, at), Kind::Other);
                    }
                    _ => {}
                }
            }
            "async" | "unsafe" => {}
            "default" | "safe" | "auto" if is_ident(next) => {}
            _ => return (end_of_macro(tokens, at), Kind::Other),
        }
        at += 1;
    }
}

/// Whether `const` before the word is the qualifier of a function, an `impl` or a trait.
fn leads_to_item(word: &Ident) -> bool {
    let words = [
        "fn", "async", "unsafe", "safe", "extern", "impl", "trait", "auto",
    ];
    words.contains(&word.to_string().as_str())
}

/// The index behind the item's braces or its `;`, and the index of the braces. Braces in `<…>` are
/// arguments.
fn end_of_body(tokens: &[TokenTree], start: usize) -> (usize, Option<usize>) {
    let mut depth = 0_usize;
    let mut is_arrow = false;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token {
            TokenTree::Punct(punct) => match punct.as_char() {
                '<' => depth += 1,
                '>' if !is_arrow => depth = depth.saturating_sub(1),
                ';' => return (at + 1, None),
                _ => {}
            },
            token if depth == 0 && braces(token).is_some() => return (at + 1, Some(at)),
            _ => {}
        }
        is_arrow = is_punct(Some(token), '-') || is_punct(Some(token), '=');
    }
    (tokens.len(), None)
}

/// `path! {…}`, `path!(…);`, `macro_rules! name {…}`, and all that is unknown.
fn end_of_macro(tokens: &[TokenTree], start: usize) -> usize {
    for (at, token) in tokens.iter().enumerate().skip(start) {
        if is_punct(Some(token), ';') {
            return at + 1;
        }
        if braces(token).is_some() {
            return at + 1;
        }
    }
    tokens.len()
}

fn behind_semicolon(tokens: &[TokenTree], start: usize) -> usize {
    let rest = tokens[start..].iter();
    let length = rest.take_while(|token| !is_punct(Some(token), ';')).count();
    start + length + 1
}

/// The token as a group of braces; a macro's `$body` holds one in a group without delimiters.
pub(crate) fn braces(token: &TokenTree) -> Option<Group> {
    let TokenTree::Group(group) = token else {
        return None;
    };
    match group.delimiter() {
        Delimiter::Brace => Some(group.clone()),
        Delimiter::None => {
            let mut tokens = group.stream().into_iter();
            let sole = tokens.next().filter(|_| tokens.next().is_none());
            sole.as_ref().and_then(braces)
        }
        Delimiter::Parenthesis | Delimiter::Bracket => None,
    }
}

/// A macro's `$vis`.
fn is_visibility(group: &Group) -> bool {
    let mut tokens = group.stream().into_iter();
    match tokens.next() {
        None => true,
        Some(first) => is_word(Some(&first), "pub") && tokens.nth(1).is_none(),
    }
}

fn is_ident(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Ident(_)))
}

pub(crate) fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if is_named(ident, word))
}

pub(crate) fn is_named(ident: &Ident, word: &str) -> bool {
    let name = ident.to_string();
    name == word
}

pub(crate) fn is_punct(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each item as its kind, its name where it has one, and the text of its last token.
    fn items(text: &str) -> Vec<String> {
        let tokens: TokenStream = text.parse().expect("tokens");
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let items = split(&tokens);
        let ends = items.iter().map(|item| item.tokens.end);
        let starts = items.iter().map(|item| item.tokens.start);
        assert!(
            starts.eq([0].into_iter().chain(ends).take(items.len())),
            "no gaps"
        );
        assert_eq!(items.last().map_or(0, |item| item.tokens.end), tokens.len());
        let name = |at: usize| tokens[at].to_string();
        let describe = |item: &Item| match item.kind {
            Kind::Function {
                name: at,
                is_const,
                body,
            } => format!(
                "{}fn {}{}",
                if is_const { "const " } else { "" },
                name(at),
                body.map_or(String::new(), &name)
            ),
            Kind::Impl { body } => format!("impl {}", name(body)),
            Kind::Trait { name: at, body } => format!("trait {}{}", name(at), name(body)),
            Kind::Module { name: at, body } => {
                format!("mod {}{}", name(at), body.map_or(String::new(), &name))
            }
            Kind::Given => "given".to_owned(),
            Kind::Other => format!("other {}", name(item.tokens.end - 1)),
        };
        items.iter().map(describe).collect()
    }

    #[test]
    fn functions_in_every_form() {
        for (text, found) in [
            ("fn a() {}", "fn a{ }"),
            (
                "#[x] #[y = \"\"] pub(in a::b) async unsafe fn r#b<T>(x: T) -> T where T: C {}",
                "fn r#b{ }",
            ),
            (
                "pub const unsafe extern \"C\" fn c(_: u8) {}",
                "const fn c{ }",
            ),
            (
                "extern fn d<const N: usize>() where [(); { N }]: {}",
                "fn d{ }",
            ),
            ("fn e() -> A<{ 3 }, fn() -> B<{ 4 }>> { f }", "fn e{ f }"),
            ("default fn g(&self);", "fn g"),
            (
                "fn h<F: Fn() -> A<{ 1 }>>(f: F) where F: for<'a> G<'a, { 2 }> { i }",
                "fn h{ i }",
            ),
        ] {
            assert_eq!(items(text), [found], "{text}");
        }
    }

    #[test]
    fn scopes_and_what_stands_between() {
        assert_eq!(
            items(
                "#![allow(x)] use a::{b, c}; extern crate d; pub struct E<const N: usize = { 3 }> { f: u8 } \
                 struct G(u8) where u8: H; enum I {} union J { k: u8 } static L: u8 = { 1 }; \
                 const M: fn() = { if a < b { c } else { d } }; const _: () = (); type N = u8; \
                 unsafe extern \"C\" { fn o(); } extern { fn p(); } macro_rules! q { () => { fn r() {} } } \
                 s! {} t::u!(v); ::w!{} union!(); default!{} macro x($y:ident) { fn z() {} } ;"
            )
            .iter()
            .map(|item| item.split(' ').next().unwrap_or_default())
            .collect::<Vec<_>>(),
            ["other"; 21]
        );
        assert_eq!(
            items(
                "unsafe impl<T> !A for B<{ 1 }> where T: C { d } impl const E for F { g } pub unsafe auto trait H: I<{ 2 }> { j } mod k; #[l] pub mod m { n } trait O = P; fn q() {}"
            ),
            [
                "impl { d }",
                "impl { g }",
                "trait H{ j }",
                "mod k",
                "mod m{ n }",
                "other ;",
                "fn q{ }"
            ]
        );
    }

    #[test]
    fn what_macros_leave_in_groups() {
        let group = |text: &str| {
            TokenTree::Group(Group::new(Delimiter::None, text.parse().expect("tokens")))
        };
        let name: TokenStream = "fn a()".parse().expect("tokens");
        let tokens: Vec<TokenTree> = [group("pub(crate)")]
            .into_iter()
            .chain(name.clone())
            .chain([group("{ x }"), group("")])
            .chain(name)
            .chain([group("{ y }"), group("fn b() {}")])
            .collect();
        let kinds: Vec<Kind> = split(&tokens).into_iter().map(|item| item.kind).collect();
        let function = |name| Kind::Function {
            name,
            is_const: false,
            body: Some(name + 2),
        };
        assert_eq!(kinds, [function(2), function(7), Kind::Given]);
    }

    #[test]
    fn nonsense_ends() {
        for text in [
            "",
            ";",
            "fn",
            "pub",
            "#",
            "# [x]",
            "const",
            "extern \"C\"",
            "impl",
            "= => >",
            "fn a(",
            "mod",
        ] {
            if let Ok(tokens) = text.parse::<TokenStream>() {
                let tokens: Vec<TokenTree> = tokens.into_iter().collect();
                assert!(split(&tokens).len() <= tokens.len(), "{text}");
            }
        }
    }

    #[test]
    fn attributes() {
        let text = "#[inline(always)] #[::a::b = 3] #[unsafe(naked)] fn c() {}";
        let tokens: TokenStream = text.parse().expect("tokens");
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let items = split(&tokens);
        let attributes: Vec<Attribute> = items[0].attributes(&tokens).collect();
        let paths: Vec<&str> = attributes
            .iter()
            .map(|attribute| &*attribute.path)
            .collect();
        assert_eq!(paths, ["inline", "::a::b", "unsafe"]);
        assert_eq!(attributes[0].arguments().to_string(), "always");
        assert!(attributes[2].says("naked") && attributes[1].arguments().is_empty());
    }
}
