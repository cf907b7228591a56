//! The items of a module, an `impl` or a trait: the beginning and the end of each, its attributes, and its body. A
//! few words tell items apart, and all tokens are kept as they came. So syntax that is newer than `syn` passes.

use std::iter::from_fn;
use std::vec::IntoIter;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// The kind of an item, as far as it matters for finding functions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Kind {
    /// A function. A declaration has no body.
    Function,
    /// An `impl` block.
    Impl,
    /// A trait. An alias of traits has no body.
    Trait,
    /// A module. One in a file of its own has no body.
    Module,
    /// Items that a macro was given, in a group without delimiters.
    Tokens,
    /// Any other item. It holds no function of the scope.
    #[default]
    Other,
}

/// An item as its tokens, in this order: attributes, head, body.
#[derive(Clone, Debug, Default)]
pub struct Item {
    /// The kind of the item.
    pub kind: Kind,
    /// The outer attributes.
    pub attributes: Vec<Attribute>,
    /// The tokens between the attributes and the body.
    pub head: Vec<TokenTree>,
    /// The place of the item's keyword in the head, such as `fn`. Its name follows.
    pub word_at: usize,
    /// The braces.
    pub body: Option<Group>,
}

impl Item {
    /// The name behind the item's word.
    #[must_use]
    pub fn name(&self) -> Option<&Ident> {
        match self.head.get(self.word_at + 1) {
            Some(TokenTree::Ident(name)) => Some(name),
            _ => None,
        }
    }

    /// A word in front of the item's own, such as `const` or `async`.
    #[must_use]
    pub fn qualifier(&self, word: &str) -> Option<&TokenTree> {
        let mut before = self.head[..self.word_at].iter();
        before.find(|token| is_word(Some(token), word))
    }

    /// All tokens.
    pub fn into_tokens(self) -> impl Iterator<Item = TokenTree> {
        let attributes = self.attributes.into_iter().flat_map(Attribute::into_tokens);
        let body = self.body.map(TokenTree::Group);
        attributes.chain(self.head).chain(body)
    }

    fn read(tokens: &mut IntoIter<TokenTree>) -> Item {
        let (word_at, end, kind) = extent(tokens.as_slice());
        let mut attributes = Vec::new();
        while begins_attribute(tokens.as_slice()) {
            attributes.extend(Attribute::read(tokens));
        }
        let before = 2 * attributes.len();
        let mut head: Vec<TokenTree> = tokens.by_ref().take(end - before).collect();
        let body = match kind {
            Kind::Tokens | Kind::Other => None,
            _ => head.last().and_then(braces),
        };
        if body.is_some() {
            head.pop();
        }
        Item {
            kind,
            attributes,
            head,
            word_at: word_at - before,
            body,
        }
    }
}

/// An outer attribute.
#[derive(Clone, Debug)]
pub struct Attribute {
    hash: TokenTree,
    /// The brackets and the tokens inside.
    pub brackets: Group,
    /// Such as `inline`, `fdr::traced`, `unsafe`.
    pub path: String,
    /// The tokens behind the path: one group, or `= value`.
    pub rest: TokenStream,
}

impl Attribute {
    /// The attribute of a `#` and the brackets behind it.
    #[must_use]
    pub fn new(hash: TokenTree, brackets: Group) -> Attribute {
        let (path, rest) = path_and_rest(brackets.stream());
        Attribute {
            hash,
            brackets,
            path,
            rest,
        }
    }

    fn read(tokens: &mut IntoIter<TokenTree>) -> Option<Attribute> {
        match (tokens.next()?, tokens.next()?) {
            (hash, TokenTree::Group(brackets)) => Some(Attribute::new(hash, brackets)),
            _ => None,
        }
    }

    /// The tokens in its parentheses.
    #[must_use]
    pub fn arguments(&self) -> TokenStream {
        match self.rest.clone().into_iter().next() {
            Some(TokenTree::Group(group)) => group.stream(),
            _ => TokenStream::new(),
        }
    }

    /// Whether the word stands anywhere in its arguments.
    #[must_use]
    pub fn contains_word(&self, word: &str) -> bool {
        contains_word(self.rest.clone(), word)
    }

    fn into_tokens(self) -> [TokenTree; 2] {
        [self.hash, TokenTree::Group(self.brackets)]
    }
}

fn path_and_rest(attribute: TokenStream) -> (String, TokenStream) {
    let mut path = String::new();
    let mut tokens = attribute.into_iter().peekable();
    while let Some(token) = tokens.peek() {
        match token {
            TokenTree::Ident(word) => path += &word.to_string(),
            TokenTree::Punct(punct) if punct.as_char() == ':' => path.push(':'),
            // A macro's `$meta`.
            TokenTree::Group(group) if group.delimiter() == Delimiter::None && path.is_empty() => {
                return path_and_rest(group.stream());
            }
            _ => break,
        }
        tokens.next();
    }
    (path, tokens.collect())
}

/// Whether the word stands anywhere in the tokens.
#[must_use]
pub fn contains_word(tokens: TokenStream, word: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => contains_word(group.stream(), word),
        token => is_word(Some(&token), word),
    })
}

/// The items of a scope, in order and without gaps.
pub fn split(tokens: TokenStream) -> impl Iterator<Item = Item> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut tokens = tokens.into_iter();
    from_fn(move || (!tokens.as_slice().is_empty()).then(|| Item::read(&mut tokens)))
}

/// How many tokens the item has that begins there.
#[must_use]
pub fn length(tokens: &[TokenTree]) -> usize {
    extent(tokens).1
}

/// The place of an item's keyword, the end of the item, and its kind.
fn extent(tokens: &[TokenTree]) -> (usize, usize, Kind) {
    if begins_inner_attribute(tokens) {
        return (0, 3, Kind::Other);
    }
    let mut at = 0;
    while begins_attribute(&tokens[at..]) {
        at += 2;
    }
    let attributes = at;
    while tokens.get(at).is_some_and(is_visibility) {
        at += 1;
    }
    if is_word(tokens.get(at), "pub") {
        at += 1 + usize::from(is_group(tokens.get(at + 1), Delimiter::Parenthesis));
    }
    let (word_at, end, kind) = match is_group(tokens.get(at), Delimiter::None) {
        true => (at, at + 1, Kind::Tokens),
        false => behind_visibility(tokens, at),
    };
    // At least one token is taken, whatever the tokens are, so that each step advances.
    let end = end.clamp(attributes.max(1), tokens.len());
    (word_at.min(end), end, kind)
}

/// As [`extent`], behind the visibility.
fn behind_visibility(tokens: &[TokenTree], mut at: usize) -> (usize, usize, Kind) {
    loop {
        let next = tokens.get(at + 1);
        let word = match tokens.get(at) {
            Some(TokenTree::Ident(word)) => word.to_string(),
            // The ABI after `extern`.
            Some(TokenTree::Literal(_)) if next.is_some() => "extern".to_owned(),
            _ => String::new(),
        };
        let kind = match word.as_str() {
            "async" | "extern" | "unsafe" => None,
            "auto" | "default" | "final" | "safe" if is_ident(next) => None,
            "const" if leads_to_item(next) => None,
            "const" | "static" | "type" | "use" => {
                let is_end = |token: &TokenTree| is_punct(Some(token), ';');
                let length = tokens[at..].iter().position(is_end);
                let end = length.map_or(tokens.len(), |length| at + length + 1);
                return (at, end, Kind::Other);
            }
            "fn" => Some(Kind::Function),
            "impl" => Some(Kind::Impl),
            "mod" => Some(Kind::Module),
            "trait" if is_ident(next) => Some(Kind::Trait),
            _ => Some(Kind::Other),
        };
        match kind {
            None => at += 1,
            Some(kind) => return (at, end_of_body(tokens, at), kind),
        }
    }
}

/// Whether `const` before the word is the qualifier of a function, an `impl` or a trait.
fn leads_to_item(token: Option<&TokenTree>) -> bool {
    let words = "fn async unsafe safe extern impl trait auto";
    matches!(token, Some(TokenTree::Ident(word)) if is_in(words, &word.to_string()))
}

/// Behind the item's braces or its `;`. Braces in `<…>` are arguments.
fn end_of_body(tokens: &[TokenTree], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut is_arrow = false;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token {
            TokenTree::Punct(punct) => match punct.as_char() {
                '<' => depth += 1,
                '>' if !is_arrow => depth = depth.saturating_sub(1),
                ';' => return at + 1,
                _ => {}
            },
            token if depth == 0 && braces(token).is_some() => return at + 1,
            _ => {}
        }
        is_arrow = is_punct(Some(token), '-') || is_punct(Some(token), '=');
    }
    tokens.len()
}

/// The token as a group of braces; a macro's `$body` holds one in a group without delimiters.
#[must_use]
pub fn braces(token: &TokenTree) -> Option<Group> {
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
fn is_visibility(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else {
        return false;
    };
    let mut tokens = group.stream().into_iter();
    let is_visibility = match tokens.next() {
        None => true,
        Some(first) => is_word(Some(&first), "pub") && tokens.nth(1).is_none(),
    };
    is_visibility && group.delimiter() == Delimiter::None
}

fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

/// `#[…]`
fn begins_attribute(tokens: &[TokenTree]) -> bool {
    is_punct(tokens.first(), '#') && is_group(tokens.get(1), Delimiter::Bracket)
}

/// `#![…]`
#[must_use]
pub fn begins_inner_attribute(tokens: &[TokenTree]) -> bool {
    is_punct(tokens.first(), '#')
        && is_punct(tokens.get(1), '!')
        && is_group(tokens.get(2), Delimiter::Bracket)
}

fn is_ident(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Ident(_)))
}

/// Whether there is a token, and it is this word.
#[must_use]
pub fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == word)
}

/// Whether the word stands in a list of words with spaces between them.
#[must_use]
pub fn is_in(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == word)
}

/// Whether there is a token, and it is this sign.
#[must_use]
pub fn is_punct(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> TokenStream {
        text.parse().expect("tokens")
    }

    fn group(text: &str) -> TokenTree {
        TokenTree::Group(Group::new(Delimiter::None, tokens(text)))
    }

    /// Each item as its kind, its name where it has one, and its body or the text of its last token.
    fn items(text: &str) -> Vec<String> {
        let items: Vec<Item> = split(tokens(text)).collect();
        let whole = items.iter().cloned().flat_map(Item::into_tokens);
        let whole: TokenStream = whole.collect();
        assert_eq!(
            whole.to_string(),
            tokens(text).to_string(),
            "no token is lost"
        );
        let describe = |item: &Item| {
            let name = item.name().map_or(String::new(), Ident::to_string);
            let body = item.body.as_ref().map_or(String::new(), Group::to_string);
            let constness = item.qualifier("const").map_or("", |_| "const ");
            match item.kind {
                Kind::Function => format!("{constness}fn {name}{body}"),
                Kind::Impl => format!("impl {body}"),
                Kind::Trait => format!("trait {name}{body}"),
                Kind::Module => format!("mod {name}{body}"),
                Kind::Tokens => "given".to_owned(),
                Kind::Other => format!(
                    "other {}",
                    item.head.last().map_or(String::new(), ToString::to_string)
                ),
            }
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
                "trait O",
                "fn q{ }"
            ]
        );
    }

    #[test]
    fn what_macros_leave_in_groups() {
        let name = || tokens("fn a()");
        let given: TokenStream = [group("pub(crate)")]
            .into_iter()
            .chain(name())
            .chain([group("{ x }"), group("")])
            .chain(name())
            .chain([group("{ y }"), group("fn b() {}")])
            .collect();
        let items: Vec<Item> = split(given).collect();
        let kinds: Vec<Kind> = items.iter().map(|item| item.kind).collect();
        assert_eq!(kinds, [Kind::Function, Kind::Function, Kind::Tokens]);
        let names: Vec<_> = items.iter().filter_map(Item::name).collect();
        assert!(names.len() == 2 && names.iter().all(|name| **name == "a"));
        assert_eq!(items.iter().filter(|item| item.body.is_some()).count(), 2);
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
            "#!",
            "const",
            "extern \"C\"",
            "\"C\"",
            "impl",
            "trait a",
            "= => >",
            "mod",
        ] {
            assert!(split(tokens(text)).count() <= 3, "{text}");
        }
    }

    #[test]
    fn attributes() {
        let text = "#[inline(always)] #[::a::b = 3] #[unsafe(naked)] fn c() {}";
        let item = split(tokens(text)).next().expect("an item");
        let paths: Vec<&str> = item.attributes.iter().map(|a| &*a.path).collect();
        assert_eq!(paths, ["inline", "::a::b", "unsafe"]);
        assert_eq!(item.attributes[0].arguments().to_string(), "always");
        assert!(
            item.attributes[2].contains_word("naked") && item.attributes[1].arguments().is_empty()
        );
    }
}
