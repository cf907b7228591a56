//! Which functions of a whole scope are worth two clock reads, judged by what their tokens say: loops, calls,
//! statements, attributes. A function that is left out costs nothing, and its time is its caller's. The tool
//! `cargo fdr` uses this file, too. It must never ask what a name means: nobody knows that before the compiler.

use std::fmt;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::items::{Attribute, Item, Kind, braces};

/// What a scope leaves out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rules {
    /// Every function that can be traced is worth it.
    pub(crate) always: bool,
    /// So many statements are asked for, and nothing else.
    pub(crate) min_statements: Option<usize>,
    /// Functions with any form of `#[inline]` are left out.
    pub(crate) skip_inline: bool,
}

/// Why a function is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reason {
    Const,
    NoBody,
    /// The attribute of that name keeps tracing away.
    Attribute(&'static str),
    Inline,
    Statements(usize),
    /// No loop, and so many instructions at most.
    Small(u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Const => f.write_str("const fn"),
            Reason::NoBody => f.write_str("no body"),
            Reason::Attribute(name) => write!(f, "#[{name}]"),
            Reason::Inline => f.write_str("inline"),
            Reason::Statements(1) => f.write_str("1 statement"),
            Reason::Statements(count) => write!(f, "{count} statements"),
            Reason::Small(weight) => write!(f, "no loop, about {weight} instructions"),
        }
    }
}

/// From so many instructions on a function is worth it without a loop. Two clock reads take as long as about 100. The
/// guess below is low, because calls of small functions are inlined: under callgrind, functions without a loop run
/// two to three times as many (`cargo xtask trial --rule`).
const WORTH: u32 = 75;

/// Attributes of functions that run where no recorder can, or hold nothing but assembly.
const UNTRACEABLE: [&str; 8] = [
    "naked",
    "panic_handler",
    "alloc_error_handler",
    "lang",
    "start",
    "proc_macro",
    "proc_macro_attribute",
    "proc_macro_derive",
];

/// Why the function is left out of its scope, if it is. Another kind of item is not worth anything.
pub(crate) fn left_out(item: &Item, tokens: &[TokenTree], rules: &Rules) -> Option<Reason> {
    let Kind::Function { is_const, body, .. } = item.kind else {
        return Some(Reason::NoBody);
    };
    if is_const {
        return Some(Reason::Const);
    }
    let Some(body) = body.and_then(|body| braces(&tokens[body])) else {
        return Some(Reason::NoBody);
    };
    let mut inline = Inline::No;
    for attribute in item.attributes(tokens) {
        let untraceable = |name: &&&str| {
            attribute.path == **name || (attribute.path == "unsafe" && attribute.says(name))
        };
        if let Some(name) = UNTRACEABLE.iter().find(untraceable) {
            return Some(Reason::Attribute(name));
        }
        inline = inline.max(Inline::of(&attribute));
    }
    if rules.always {
        return None;
    }
    if rules.skip_inline && inline != Inline::No {
        return Some(Reason::Inline);
    }
    let measured = Measure::of(body.stream());
    if let Some(least) = rules.min_statements {
        let count = measured.statements;
        return (count < least).then_some(Reason::Statements(count));
    }
    if measured.has_loop {
        return None;
    }
    if inline == Inline::Always {
        return Some(Reason::Inline);
    }
    (measured.instructions < WORTH).then_some(Reason::Small(measured.instructions))
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Inline {
    No,
    Asked,
    Always,
}

impl Inline {
    fn of(attribute: &Attribute) -> Inline {
        match attribute.path.as_str() {
            "inline" if attribute.says("always") => Inline::Always,
            "inline" => Inline::Asked,
            _ => Inline::No,
        }
    }
}

/// What a body's tokens come to.
#[derive(Debug, Default, PartialEq)]
struct Measure {
    /// What ends in `;`, a last expression, and each `if`, `match`, loop and arm.
    statements: usize,
    /// A loop, an iterator that runs to its end, or a wait.
    has_loop: bool,
    /// A guess of what one call runs at most, without what it calls.
    instructions: u32,
}

/// Methods that go through many values, or wait for something.
const LOOPS: [&str; 49] = [
    "all",
    "any",
    "collect",
    "concat",
    "count",
    "dedup",
    "dedup_by",
    "dedup_by_key",
    "extend",
    "find",
    "find_map",
    "fold",
    "for_each",
    "join",
    "max_by",
    "max_by_key",
    "min_by",
    "min_by_key",
    "partition",
    "position",
    "product",
    "retain",
    "rposition",
    "sort",
    "sort_by",
    "sort_by_key",
    "sort_unstable",
    "sort_unstable_by",
    "sum",
    "try_fold",
    "accept",
    "block_on",
    "connect",
    "flush",
    "join",
    "lock",
    "output",
    "park",
    "read_exact",
    "read_line",
    "read_to_end",
    "read_to_string",
    "recv",
    "recv_timeout",
    "send",
    "sleep",
    "wait",
    "wait_timeout",
    "write_all",
];

/// Methods that compile to a few instructions.
const LIGHT: [&str; 24] = [
    "as_bytes",
    "as_deref",
    "as_mut",
    "as_ptr",
    "as_ref",
    "as_str",
    "borrow",
    "borrow_mut",
    "cloned",
    "copied",
    "deref",
    "expect",
    "get_mut",
    "into",
    "is_empty",
    "is_none",
    "is_some",
    "iter",
    "len",
    "ok",
    "take",
    "unwrap",
    "unwrap_or",
    "unwrap_or_default",
];

/// Macros that do next to nothing in a call that goes well.
const CHECKS: [&str; 12] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "bail",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "matches",
    "panic",
    "todo",
    "unimplemented",
    "unreachable",
];

const CALL: u32 = 10;
const MACRO: u32 = 40;
const BRANCH: u32 = 3;
const INDEX: u32 = 4;

impl Measure {
    fn of(body: TokenStream) -> Measure {
        let mut measure = Measure::default();
        measure.add(body, true);
        measure
    }

    /// `in_block`: whether a `;` here ends a statement.
    fn add(&mut self, tokens: TokenStream, in_block: bool) {
        let mut before: [Option<TokenTree>; 2] = [None, None];
        let mut tokens = tokens.into_iter().peekable();
        let mut ends_statement = true;
        let mut has_arms = false;
        while let Some(token) = tokens.next() {
            ends_statement = false;
            match &token {
                TokenTree::Ident(word) => {
                    let is_name =
                        matches!(&before[1], Some(TokenTree::Punct(dot)) if dot.as_char() == '.');
                    self.word(&word.to_string(), is_name, tokens.peek());
                }
                TokenTree::Punct(punct) => match punct.as_char() {
                    ';' if in_block => {
                        self.statements += 1;
                        ends_statement = true;
                    }
                    '>' if is_punct(before[1].as_ref(), '=') => {
                        has_arms = true;
                        self.statements += 1;
                        self.instructions += BRANCH;
                    }
                    '?' => self.instructions += INDEX,
                    '+' | '-' | '*' | '/' | '%' | '&' | '|' | '^' | '<' => self.instructions += 1,
                    _ => {}
                },
                TokenTree::Group(group) => {
                    self.group(group, &before);
                    ends_statement = group.delimiter() == Delimiter::Brace;
                }
                TokenTree::Literal(_) => {}
            }
            before = [before[1].take(), Some(token)];
        }
        // The last expression of a block.
        self.statements += usize::from(in_block && !ends_statement && !has_arms);
    }

    /// A word of the body.
    fn word(&mut self, word: &str, is_name: bool, next: Option<&TokenTree>) {
        match word {
            "await" if is_name => self.has_loop = true,
            // `for<'a>` is a type.
            "for" if is_punct(next, '<') => {}
            "for" | "while" | "loop" => {
                self.has_loop = true;
                self.statements += 1;
            }
            "if" | "match" => {
                self.statements += 1;
                self.instructions += BRANCH;
            }
            name => {
                let takes_long = LOOPS.contains(&name);
                self.has_loop |= takes_long && is_name && is_call(next);
            }
        }
    }

    fn group(&mut self, group: &Group, before: &[Option<TokenTree>; 2]) {
        match (group.delimiter(), &before[1]) {
            (Delimiter::Parenthesis, Some(TokenTree::Ident(name))) => {
                self.instructions += call(&name.to_string());
            }
            // `name::<T>(…)`
            (Delimiter::Parenthesis, Some(TokenTree::Punct(tip))) if tip.as_char() == '>' => {
                self.instructions += CALL;
            }
            (_, Some(TokenTree::Punct(bang))) if bang.as_char() == '!' => {
                if let Some(TokenTree::Ident(name)) = &before[0] {
                    let is_check = CHECKS.contains(&name.to_string().as_str());
                    self.instructions += if is_check { BRANCH } else { MACRO };
                    if is_check {
                        return;
                    }
                    // Macros that fill a collection, or print, do so argument by argument.
                    self.instructions += CALL * separators(group.stream());
                }
            }
            (Delimiter::Bracket, Some(TokenTree::Ident(_) | TokenTree::Group(_))) => {
                self.instructions += INDEX;
            }
            _ => {}
        }
        self.add(group.stream(), group.delimiter() == Delimiter::Brace);
    }
}

/// How many commas stand in a macro, outside of its groups.
fn separators(tokens: TokenStream) -> u32 {
    let is_comma = |token: &TokenTree| is_punct(Some(token), ',');
    let count = tokens.into_iter().filter(is_comma).count();
    u32::try_from(count).unwrap_or(u32::MAX / CALL)
}

/// Whether a name is called: `name(…)` or `name::<T>(…)`. Otherwise it is a field.
fn is_call(next: Option<&TokenTree>) -> bool {
    let arguments = |group: &Group| group.delimiter() == Delimiter::Parenthesis;
    matches!(next, Some(TokenTree::Group(group)) if arguments(group)) || is_punct(next, ':')
}

/// What a call of that name costs its caller.
fn call(name: &str) -> u32 {
    const KEYWORDS: [&str; 5] = ["if", "in", "match", "return", "while"];
    if KEYWORDS.contains(&name) {
        return 0;
    }
    // `Some(…)` and other constructors begin with a capital.
    if LIGHT.contains(&name) || name.starts_with(char::is_uppercase) {
        return BRANCH;
    }
    CALL
}

fn is_punct(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == char)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::split;

    fn judge(text: &str, rules: &Rules) -> Option<Reason> {
        let tokens: TokenStream = text.parse().expect("tokens");
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let items = split(&tokens);
        assert_eq!(items.len(), 1, "{text}");
        left_out(&items[0], &tokens, rules)
    }

    #[test]
    fn what_cannot_be_traced_is_left_out_always() {
        let always = Rules {
            always: true,
            ..Rules::default()
        };
        for (text, reason) in [
            ("const fn a() { loop {} }", Reason::Const),
            ("pub const unsafe extern \"C\" fn a() {}", Reason::Const),
            ("fn a();", Reason::NoBody),
            ("struct A { b: u8 }", Reason::NoBody),
            (
                "#[unsafe(naked)] extern \"C\" fn a() { x!() }",
                Reason::Attribute("naked"),
            ),
            ("#[naked] fn a() {}", Reason::Attribute("naked")),
            (
                "#[panic_handler] fn a(_: &I) -> ! { loop {} }",
                Reason::Attribute("panic_handler"),
            ),
            (
                "#[proc_macro_derive(A, attributes(b))] pub fn a(_: T) -> T { b() }",
                Reason::Attribute("proc_macro_derive"),
            ),
        ] {
            assert_eq!(judge(text, &always), Some(reason), "{text}");
        }
        assert_eq!(judge("fn a() {}", &always), None);
    }

    #[test]
    fn loops_and_waits_are_worth_it() {
        for body in [
            "for a in b {}",
            "while a() {}",
            "loop { return; }",
            "self.a.iter().map(|b| b.c).sum::<u64>()",
            "a.await",
            "self.rt.block_on(self.inner.get(key))",
            "if a { while let Some(b) = c.next() {} }",
            "a(|| loop {})",
        ] {
            let text = format!("#[inline(always)] fn a() {{ {body} }}");
            assert_eq!(judge(&text, &Rules::default()), None, "{body}");
        }
    }

    #[test]
    fn accessors_are_not() {
        for body in [
            "",
            "self.a",
            "&mut self.a.b",
            "self.a.len()",
            "self.a = a;",
            "self.count += a; self.position = self.output;",
            "match self { A::B(c) => Some(c), A::D => None }",
            "debug_assert!(self.a.iter().all(|b| b.is_c()), \"{}\", self.d()); self.a[i]",
            "let f: for<'a> fn(&'a u8) = self.f; f(&1)",
            "Self { a: A::new(), b: B::default() }",
        ] {
            let found = judge(&format!("fn a() {{ {body} }}"), &Rules::default());
            assert!(matches!(found, Some(Reason::Small(_))), "{body}: {found:?}");
        }
        let calls = "f(a); ".repeat(WORTH.div_ceil(CALL) as usize);
        assert_eq!(
            judge(&format!("fn a() {{ {calls} }}"), &Rules::default()),
            None
        );
        let text = format!("#[inline(always)] fn a() {{ {calls} }}");
        assert_eq!(judge(&text, &Rules::default()), Some(Reason::Inline));
    }

    // Under callgrind, the first of the two runs 273 instructions of its own, and the second 120.
    #[test]
    fn a_macro_counts_with_its_arguments() {
        let set = |arguments: usize| {
            let arguments = "A::B, ".repeat(arguments);
            judge(
                &format!("fn a() {{ b!{{ {arguments} }} }}"),
                &Rules::default(),
            )
        };
        assert_eq!(set(9), None);
        assert_eq!(set(3), Some(Reason::Small(MACRO + 3 * CALL)));
        let check = "fn a() { assert_eq!(b, c, \"{} {} {}\", d, e, f); }";
        assert_eq!(judge(check, &Rules::default()), Some(Reason::Small(BRANCH)));
    }

    #[test]
    fn statements_are_counted() {
        let count = |body: &str| Measure::of(body.parse().expect("tokens")).statements;
        for (body, statements) in [
            ("", 0),
            ("a", 1),
            ("a;", 1),
            ("let a = [0; 4]; b(a)", 2),
            ("if a { b; } else { c; }", 3),
            ("match a { B => c, D => { e; f } }", 5),
            ("for a in b { c }", 2),
            ("a(|b| { c; d })", 3),
        ] {
            assert_eq!(count(body), statements, "{body}");
        }
    }

    #[test]
    fn the_rules_of_a_person_come_first() {
        let text = "#[inline] fn a() { for b in c { d; } }";
        let few = |least| Rules {
            min_statements: Some(least),
            ..Rules::default()
        };
        assert_eq!(judge(text, &few(3)), Some(Reason::Statements(2)));
        assert_eq!(judge(text, &few(2)), None);
        assert_eq!(judge("fn a() {}", &few(0)), None);
        let skip_inline = Rules {
            skip_inline: true,
            ..Rules::default()
        };
        assert_eq!(judge(text, &skip_inline), Some(Reason::Inline));
        assert_eq!(judge("#[cold] fn a() { loop {} }", &skip_inline), None);
    }
}
