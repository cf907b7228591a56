//! About how many instructions a call of a function runs at most, by the tokens of its body. Of the arms of a `match`
//! and the branches of an `if`, a call runs one: the longest counts. A branch that returns is held against all that
//! follows it. The tool `cargo fdr` uses this file, too. It must never ask what a name means: nobody knows that before
//! the compiler.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

use crate::items::{is_punct, is_word};

/// Methods and functions that compile to a few instructions, beside those of a closure that they are given.
const LIGHT: [&str; 44] = [
    "and_then",
    "as_bytes",
    "as_deref",
    "as_mut",
    "as_mut_ptr",
    "as_ptr",
    "as_ref",
    "as_slice",
    "as_str",
    "borrow",
    "borrow_mut",
    "cast",
    "cloned",
    "copied",
    "deref",
    "expect",
    "from_raw_parts",
    "get_mut",
    "get_unchecked",
    "get_unchecked_mut",
    "into",
    "iter",
    "len",
    "map",
    "map_err",
    "max",
    "min",
    "new_unchecked",
    "ok",
    "ok_or",
    "ok_or_else",
    "size_of",
    "swap",
    "take",
    "then",
    "then_some",
    "to_bits",
    "unwrap",
    "unwrap_or",
    "unwrap_or_default",
    "unwrap_or_else",
    "unwrap_unchecked",
    "wrapping_add",
    "wrapping_sub",
];

const CALL: u32 = 10;
const MACRO: u32 = 40;
const BRANCH: u32 = 3;
const INDEX: u32 = 4;

/// What the paths through some tokens run at most.
#[derive(Clone, Copy, Default)]
struct Paths {
    /// A path to the end of the tokens.
    through: u32,
    /// A path that leaves the function before.
    leaving: u32,
}

impl Paths {
    fn through(instructions: u32) -> Paths {
        Paths {
            through: instructions,
            leaving: 0,
        }
    }

    fn leaving(instructions: u32) -> Paths {
        Paths {
            through: 0,
            leaving: instructions,
        }
    }

    /// Those of a block or an arm, of which `last` is the last statement.
    fn of_branch(tokens: &[TokenTree], last: &[TokenTree]) -> Paths {
        match leaves(last) {
            true => Paths::leaving(of_tokens(tokens)),
            false => Paths::through(of_tokens(tokens)),
        }
    }

    /// All paths go through so many instructions first.
    fn behind(self, instructions: u32) -> Paths {
        Paths {
            through: self.through + instructions,
            leaving: self.leaving + instructions,
        }
    }

    /// One of the two is taken.
    fn or(self, other: Paths) -> Paths {
        Paths {
            through: self.through.max(other.through),
            leaving: self.leaving.max(other.leaving),
        }
    }

    /// First this one, then the other.
    fn then(self, next: Paths) -> Paths {
        Paths {
            through: self.through + next.through,
            leaving: self.leaving.max(self.through + next.leaving),
        }
    }

    fn longest(self) -> u32 {
        self.through.max(self.leaving)
    }
}

/// A guess of what one call runs at most, without what it calls.
pub(crate) fn instructions(body: TokenStream) -> u32 {
    of_tokens(&body.into_iter().collect::<Vec<_>>())
}

fn of_tokens(tokens: &[TokenTree]) -> u32 {
    let mut paths = Paths::default();
    // Of what stands behind `cfg`s, the longest: as a rule they exclude each other.
    let mut configured = 0;
    let mut at = 0;
    while at < tokens.len() {
        let (next, end) = match &tokens[at] {
            token if is_word(Some(token), "if") => of_if(tokens, at),
            token if is_word(Some(token), "match") => of_match(tokens, at),
            // `let … else { … }`: other forms of `else` belong to their `if`.
            token if is_word(Some(token), "else") => match tokens.get(at + 1) {
                Some(TokenTree::Group(block)) => (
                    Paths::leaving(BRANCH + instructions(block.stream())),
                    at + 2,
                ),
                _ => (Paths::default(), at + 1),
            },
            TokenTree::Punct(hash) if hash.as_char() == '#' => match tokens.get(at + 1) {
                Some(TokenTree::Group(attribute)) => {
                    let from = at + 2;
                    let end = if is_cfg(attribute.stream()) {
                        statement(tokens, from)
                    } else {
                        from
                    };
                    configured = configured.max(of_tokens(&tokens[from..end]));
                    (Paths::default(), end)
                }
                _ => (Paths::default(), at + 1),
            },
            token => (Paths::through(of_token(token, &tokens[..at])), at + 1),
        };
        paths = paths.then(next);
        at = end;
    }
    paths.longest() + configured
}

/// `if … { … } else if … { … } else { … }`, which begins there; also where it ends.
fn of_if(tokens: &[TokenTree], at: usize) -> (Paths, usize) {
    let Some((block, behind)) = block(tokens, at + 1) else {
        return (Paths::through(BRANCH), at + 1);
    };
    let condition = BRANCH + of_tokens(&tokens[at + 1..behind - 1]);
    let then = of_block(block);
    let is = |at: usize, word: &str| is_word(tokens.get(at), word);
    let (otherwise, end) = match tokens.get(behind + 1) {
        Some(_) if is(behind, "else") && is(behind + 1, "if") => of_if(tokens, behind + 1),
        Some(TokenTree::Group(block)) if is(behind, "else") => (of_block(block), behind + 2),
        _ => (Paths::default(), behind),
    };
    (then.or(otherwise).behind(condition), end)
}

/// `match … { … }`, which begins there; also where it ends.
fn of_match(tokens: &[TokenTree], at: usize) -> (Paths, usize) {
    let Some((arms, behind)) = block(tokens, at + 1) else {
        return (Paths::through(BRANCH), at + 1);
    };
    let mut before = BRANCH + of_tokens(&tokens[at + 1..behind - 1]);
    let mut paths = Paths::default();
    let arms: Vec<TokenTree> = arms.stream().into_iter().collect();
    let mut rest = &arms[..];
    while let Some(arrow) = position_of_arrow(rest) {
        let (pattern, from) = (&rest[..arrow], arrow + 2);
        let is_if = |token: &TokenTree| is_word(Some(token), "if");
        if let Some(guard) = pattern.iter().position(is_if) {
            before += BRANCH + of_tokens(&pattern[guard + 1..]);
        }
        let end = match rest.get(from) {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => from + 1,
            _ => {
                let comma = rest[from..]
                    .iter()
                    .position(|token| is_punct(Some(token), ','));
                comma.map_or(rest.len(), |comma| from + comma + 1)
            }
        };
        let arm = match &rest[from..end] {
            [TokenTree::Group(body)] if body.delimiter() == Delimiter::Brace => of_block(body),
            body => Paths::of_branch(body, body),
        };
        paths = paths.or(arm);
        rest = &rest[end..];
    }
    (paths.behind(before), behind)
}

fn of_block(block: &Group) -> Paths {
    let tokens: Vec<TokenTree> = block.stream().into_iter().collect();
    let ends = |token: &TokenTree| is_punct(Some(token), ';');
    let statements = match tokens.split_last() {
        Some((last, before)) if ends(last) => before,
        _ => &tokens,
    };
    let last = statements.rsplit(ends).next().unwrap_or_default();
    Paths::of_branch(&tokens, last)
}

/// Whether a statement or an expression leaves the function, or its loop.
fn leaves(tokens: &[TokenTree]) -> bool {
    const WORDS: [&str; 8] = [
        "bail",
        "break",
        "continue",
        "panic",
        "return",
        "todo",
        "unimplemented",
        "unreachable",
    ];
    WORDS.iter().any(|word| is_word(tokens.first(), word))
}

/// The block of an `if` or a `match` whose condition begins there, and where what follows it begins.
fn block(tokens: &[TokenTree], from: usize) -> Option<(&Group, usize)> {
    // Blocks of the condition.
    const OPEN: [&str; 3] = ["else", "loop", "unsafe"];
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token {
            TokenTree::Punct(end) if end.as_char() == ';' => return None,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let before = Some(&tokens[at - 1]);
                let is_condition = OPEN.iter().any(|word| is_word(before, word));
                if !is_condition {
                    return Some((group, at + 1));
                }
            }
            _ => {}
        }
    }
    None
}

/// Where the statement, field or argument ends that begins there.
fn statement(tokens: &[TokenTree], from: usize) -> usize {
    let mut at = from;
    while at < tokens.len() {
        let next = tokens.get(at + 1);
        let ends = match &tokens[at] {
            TokenTree::Punct(end) => matches!(end.as_char(), ';' | ','),
            TokenTree::Group(group) => {
                let goes_on = is_punct(next, '.') || is_punct(next, '?') || is_word(next, "else");
                group.delimiter() == Delimiter::Brace && !goes_on
            }
            _ => false,
        };
        at += 1;
        if ends {
            break;
        }
    }
    at
}

fn position_of_arrow(tokens: &[TokenTree]) -> Option<usize> {
    tokens
        .windows(2)
        .position(|pair| is_punct(Some(&pair[0]), '=') && is_punct(Some(&pair[1]), '>'))
}

/// What no branch depends on.
fn of_token(token: &TokenTree, before: &[TokenTree]) -> u32 {
    match token {
        TokenTree::Punct(punct) => match punct.as_char() {
            '?' => INDEX,
            '+' | '-' | '*' | '/' | '%' | '&' | '|' | '^' | '<' => 1,
            _ => 0,
        },
        TokenTree::Group(group) => of_group(group, before),
        TokenTree::Ident(_) | TokenTree::Literal(_) => 0,
    }
}

fn of_group(group: &Group, before: &[TokenTree]) -> u32 {
    if let Some(run) = check(before) {
        let arguments: Vec<TokenTree> = group.stream().into_iter().collect();
        let arguments = arguments.split(|token| is_punct(Some(token), ','));
        return BRANCH + arguments.take(run).map(of_tokens).sum::<u32>();
    }
    let own = match (group.delimiter(), before.last()) {
        (Delimiter::Parenthesis, Some(TokenTree::Ident(name))) => call(&name.to_string(), group),
        (Delimiter::Parenthesis, Some(TokenTree::Punct(tip))) if tip.as_char() == '>' => {
            name_before_types(before).map_or(CALL, |name| call(&name.to_string(), group))
        }
        // Macros that fill a collection, or print, do so argument by argument.
        _ if macro_name(before).is_some() => MACRO + CALL * separators(group.stream()),
        (Delimiter::Bracket, Some(TokenTree::Ident(_) | TokenTree::Group(_))) => INDEX,
        _ => 0,
    };
    own + instructions(group.stream())
}

/// The name of the macro whose arguments follow.
fn macro_name(before: &[TokenTree]) -> Option<&Ident> {
    match before {
        [.., TokenTree::Ident(name), TokenTree::Punct(bang)] if bang.as_char() == '!' => Some(name),
        _ => None,
    }
}

/// Whether what follows are the arguments of a macro that does next to nothing in a call that goes well.
pub(crate) fn is_check(before: &[TokenTree]) -> bool {
    check(before).is_some()
}

/// How many of the arguments that follow run in a release, if they are those of a check.
fn check(before: &[TokenTree]) -> Option<usize> {
    match macro_name(before)?.to_string().as_str() {
        "assert" | "matches" => Some(1),
        "assert_eq" | "assert_ne" => Some(2),
        "bail" | "panic" | "todo" | "unimplemented" | "unreachable" => Some(0),
        name => name.starts_with("debug_assert").then_some(0),
    }
}

/// How many commas stand between arguments.
pub(crate) fn separators(tokens: TokenStream) -> u32 {
    let is_comma = |token: &TokenTree| is_punct(Some(token), ',');
    let count = tokens.into_iter().filter(is_comma).count();
    u32::try_from(count).unwrap_or(u32::MAX / CALL)
}

/// The name of `name::<T>`.
fn name_before_types(tokens: &[TokenTree]) -> Option<&Ident> {
    let mut open = 0;
    let begin = tokens.iter().rposition(|token| {
        open += i32::from(is_punct(Some(token), '>')) - i32::from(is_punct(Some(token), '<'));
        open == 0
    })?;
    match &tokens[..begin] {
        [
            ..,
            TokenTree::Ident(name),
            TokenTree::Punct(_),
            TokenTree::Punct(_),
        ] => Some(name),
        _ => None,
    }
}

/// What a call of that name costs its caller.
fn call(name: &str, arguments: &Group) -> u32 {
    const KEYWORDS: [&str; 5] = ["if", "in", "match", "return", "while"];
    if KEYWORDS.contains(&name) {
        return 0;
    }
    // `Some(…)` and other constructors begin with a capital.
    let is_light = match name {
        // Of a cell.
        "get" => arguments.stream().is_empty(),
        "set" => separators(arguments.stream()) == 0,
        _ => {
            LIGHT.contains(&name) || name.starts_with("is_") || name.starts_with(char::is_uppercase)
        }
    };
    if is_light { BRANCH } else { CALL }
}

fn is_cfg(attribute: TokenStream) -> bool {
    is_word(attribute.into_iter().next().as_ref(), "cfg")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> u32 {
        instructions(body.parse().expect("tokens"))
    }

    #[test]
    fn what_follows_each_other_is_added() {
        assert_eq!(of(""), 0);
        assert_eq!(of("self.a"), 0);
        assert_eq!(of("f(a, g(b)); c.h()"), 3 * CALL);
        assert_eq!(of("h::<T>()"), 1 + CALL);
        assert_eq!(of("h::<Vec<T>>() + a.cast::<T>()"), 4 + CALL + BRANCH);
        assert_eq!(of("(a as Vec<T>)(b); <T>(c)"), 2 + CALL);
        assert_eq!(of("a + b[c] * d?"), 2 + 2 * INDEX);
        assert_eq!(of("Some(self.a.as_ref().unwrap())"), 3 * BRANCH);
        assert_eq!(of("a.set(a.get()); a.is_b()"), 3 * BRANCH);
        assert_eq!(of("a.set(b, c); a.get(d)"), 2 * CALL);
        assert_eq!(of("return (a)"), 0);
    }

    #[test]
    fn of_several_branches_the_longest_counts() {
        assert_eq!(of("if a() { f(); f() } else { f() }"), BRANCH + 3 * CALL);
        assert_eq!(
            of("if a { f() } else if b { f(); f() } else { } g()"),
            2 * BRANCH + 3 * CALL
        );
        assert_eq!(
            of("match a() { B(c) => f(), D => { f(); f() } E | F => g(), }"),
            BRANCH + 3 * CALL
        );
        assert_eq!(
            of("match a { B if f() => { } C if f() => g(), D => h() }"),
            3 * BRANCH + 3 * CALL
        );
        assert_eq!(
            of("match unsafe { a() } { B => f(), _ => f() }"),
            BRANCH + 2 * CALL
        );
        assert_eq!(
            of("if let Some(a) = unsafe { b } { f() }"),
            2 * BRANCH + CALL
        );
        // What both branches do is no choice.
        assert_eq!(of("f(if a { b() } else { c() })"), BRANCH + 2 * CALL);
    }

    #[test]
    fn a_branch_that_leaves_is_held_against_what_follows() {
        let fails = "if a { return Err(f(g(h(c)))); }";
        assert_eq!(of(&format!("{fails} f(); f()")), 2 * BRANCH + 3 * CALL);
        assert_eq!(of(&format!("{fails} {fails} f()")), 3 * BRANCH + 3 * CALL);
        assert_eq!(
            of(&format!("{fails} f(); f(); f(); f(); f()")),
            BRANCH + 5 * CALL
        );
        assert_eq!(of("if a { f(); f() } g()"), BRANCH + 3 * CALL);
        assert_eq!(
            of("let Some(a) = b else { f(); return g() }; h()"),
            2 * BRANCH + 2 * CALL
        );
        assert_eq!(
            of("match a { B => return f(g()), C => h() } i()"),
            BRANCH + 2 * CALL
        );
        assert_eq!(of("if a { unreachable!(\"{}\", f()) } g()"), BRANCH + CALL);
    }

    #[test]
    fn of_what_stands_behind_cfgs_the_longest_counts() {
        let parts = "#[cfg(a)] { f(); f() } #[cfg(not(a))] let x = f(); #[allow(b)] g()";
        assert_eq!(of(parts), 3 * CALL);
        assert_eq!(
            of("#[cfg(a)] if b { f() } else { f() } #[cfg(c)] f()"),
            BRANCH + CALL
        );
    }

    // Under callgrind, the first of the two runs 273 instructions of its own, and the second 120.
    #[test]
    fn a_macro_counts_with_its_arguments() {
        let arguments = |count: usize| of(&format!("b!{{ {} }}", "A::B, ".repeat(count)));
        assert_eq!((arguments(9), arguments(3)), (130, 70));
        assert_eq!(of("assert_eq!(b, c, \"{} {} {}\", d, e(f), g)"), BRANCH);
        let checks = "assert!(f(a), b()); assert_ne!(f(), 1 + f(), \"\"); debug_assert!(f()); matches!(f(), A(_))";
        assert_eq!(of(checks), 4 * BRANCH + 4 * CALL + 1);
    }

    #[test]
    fn tokens_that_are_no_rust_are_no_failure() {
        for body in [
            "if",
            "match",
            "match a",
            "if a;",
            "else",
            "#",
            "=> a",
            "if { } else",
            "match { => }",
            "!(a)",
        ] {
            let _ = of(body);
        }
    }
}
