//! Which functions of a whole scope are worth two clock reads, judged by what their tokens say: loops, calls,
//! statements, attributes. A function that is left out costs nothing, and its time is its caller's. The tool
//! `cargo fdr` uses this file, too. It must never ask what a name means: nobody knows that before the compiler.

use std::fmt;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::items::{Attribute, Item, Kind, braces, is_punct, is_word};
use crate::weight;

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

/// From so many instructions on a function is worth it without a loop. Two clock reads take as long as about 200. The
/// guess is low, because calls of small functions are inlined (`cargo xtask trial --rule` holds it against counts).
const WORTH: u32 = 70;

/// With `#[inline]`, which a mark would hinder: in its callers, the compiler can leave out what a call does not need.
const WORTH_INLINE: u32 = 130;

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
    let least = match inline {
        Inline::No => WORTH,
        Inline::Asked => WORTH_INLINE,
        Inline::Always => return Some(Reason::Inline),
    };
    (measured.instructions < least).then_some(Reason::Small(measured.instructions))
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
const LOOPS: [&str; 50] = [
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
    "spawn",
    "sync_all",
    "sync_data",
    "wait",
    "wait_timeout",
];

/// What a write of all bytes waits for, by the word before it. Other writers are most often in memory.
const WRITTEN: [&str; 10] = [
    "conn", "file", "pipe", "sock", "socket", "stderr", "stdin", "stdout", "stream", "tty",
];

/// Functions that wait for something, whatever module they are in.
const WAITS: [&str; 4] = ["connect", "park", "park_timeout", "sleep"];

/// Modules and types whose functions wait for the disk or the network.
const OF_WAITS: [&str; 6] = [
    "File",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "UnixStream",
    "fs",
];

impl Measure {
    fn of(body: TokenStream) -> Measure {
        let mut measure = Measure {
            instructions: weight::instructions(body.clone()),
            ..Measure::default()
        };
        measure.add(body, true);
        measure
    }

    /// `in_block`: whether a `;` here ends a statement.
    fn add(&mut self, tokens: TokenStream, in_block: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut ends_statement = true;
        let mut has_arms = false;
        for (at, token) in tokens.iter().enumerate() {
            let before = &tokens[..at];
            ends_statement = false;
            match token {
                TokenTree::Ident(word) => self.word(&word.to_string(), before, tokens.get(at + 1)),
                TokenTree::Punct(punct) => match punct.as_char() {
                    ';' if in_block => {
                        self.statements += 1;
                        ends_statement = true;
                    }
                    '>' if is_punct(before.last(), '=') => {
                        has_arms = true;
                        self.statements += 1;
                    }
                    _ => {}
                },
                TokenTree::Group(group) => {
                    if !weight::is_check(before) {
                        self.add(group.stream(), group.delimiter() == Delimiter::Brace);
                    }
                    ends_statement = group.delimiter() == Delimiter::Brace;
                }
                TokenTree::Literal(_) => {}
            }
        }
        // The last expression of a block.
        self.statements += usize::from(in_block && !ends_statement && !has_arms);
    }

    /// A word of the body, behind others and before the next token.
    fn word(&mut self, word: &str, before: &[TokenTree], next: Option<&TokenTree>) {
        let is_name = is_punct(before.last(), '.');
        match word {
            "await" if is_name => self.has_loop = true,
            // `for<'a>` is a type.
            "for" if is_punct(next, '<') => {}
            "for" | "while" | "loop" => {
                self.has_loop = true;
                self.statements += 1;
            }
            "if" | "match" => self.statements += 1,
            // It lays out one value behind another.
            "extend" if before.iter().any(is_layout) => {}
            // `io::copy(from, to)` waits, and `ptr::copy(from, to, count)` shifts a list; `text.replace(old, new)` reads
            // all of the text. With fewer arguments, both names mean one value.
            "copy" => {
                self.has_loop |= arguments(next) > if module_is(before, &["io"]) { 1 } else { 2 }
            }
            "replace" => self.has_loop |= is_name && arguments(next) > 1,
            "write_all" if is_name => self.has_loop |= is_written(before),
            // A method of the type's own is judged where it is written.
            _ if is_name && is_word(before.iter().nth_back(1), "self") => {}
            // What is borrowed is no iterator that `count` would use up.
            "count" if is_name && is_word(before.iter().nth_back(2), "borrow") => {}
            name if is_name => self.has_loop |= LOOPS.contains(&name) && is_call(next),
            name => {
                self.has_loop |=
                    (WAITS.contains(&name) || module_is(before, &OF_WAITS)) && is_call(next)
            }
        }
    }
}

/// Whether the words before a `.` end in one of [`WRITTEN`]: `self.stream.`, `stdout().`, `&mut log_file.`.
fn is_written(before: &[TokenTree]) -> bool {
    let name = before.iter().rev().find_map(|token| match token {
        TokenTree::Ident(name) => Some(name.to_string()),
        _ => None,
    });
    let name = name.unwrap_or_default();
    let mut words = name.rsplit('_');
    words.next().is_some_and(|word| WRITTEN.contains(&word))
}

/// Whether the name that follows is one of these modules' or types': `fs::` of `fs::read`.
fn module_is(before: &[TokenTree], names: &[&str]) -> bool {
    let is_path = is_punct(before.last(), ':');
    let module = before.iter().nth_back(2);
    is_path && names.iter().any(|name| is_word(module, name))
}

fn is_layout(token: &TokenTree) -> bool {
    is_word(Some(token), "Layout")
}

/// How many arguments a call has, if it is one without types.
fn arguments(next: Option<&TokenTree>) -> u32 {
    match next {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            let tokens = group.stream();
            match tokens.is_empty() {
                true => 0,
                false => 1 + weight::separators(tokens),
            }
        }
        _ => 0,
    }
}

/// Whether a name is called: `name(…)` or `name::<T>(…)`. Otherwise it is a field.
fn is_call(next: Option<&TokenTree>) -> bool {
    let arguments = |group: &Group| group.delimiter() == Delimiter::Parenthesis;
    matches!(next, Some(TokenTree::Group(group)) if arguments(group)) || is_punct(next, ':')
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
            "self.a.extend(b)",
            "ptr::copy(a.add(1), a, self.len - b)",
            "path.replace('~', home)",
            "std::thread::sleep(self.pause)",
            "sleep(self.pause)",
            "fs::write(path, text)?",
            "Config(std::fs::read_to_string(path)?)",
            "let stream = TcpStream::connect(address)?",
            "File::open(path)",
            "io::copy(a, b)",
            "self.file.sync_all()",
            "self.stream.write_all(bytes)",
            "self.log_file.as_ref()?; log_file.write_all(bytes)",
            "io::stdout().write_all(bytes)",
            "self.a.borrow().iter().count()",
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
            "self.a.replace(b)",
            "self.count() >= self.a.borrow().count()",
            "mem::replace(&mut self.a, b)",
            "self.copy()",
            "Copy::copy(a, b)",
            "self.sleep = File::NAME",
            "Some(fs::Kind)",
            "self.out().borrow_mut().write_all(bytes)",
            "file.inner.write_all(bytes)",
        ] {
            let found = judge(&format!("fn a() {{ {body} }}"), &Rules::default());
            assert!(matches!(found, Some(Reason::Small(_))), "{body}: {found:?}");
        }
        let calls = "f(a); ".repeat(WORTH as usize / 10 + 1);
        assert_eq!(
            judge(&format!("fn a() {{ {calls} }}"), &Rules::default()),
            None
        );
        let text = format!("#[inline(always)] fn a() {{ {calls} }}");
        assert_eq!(judge(&text, &Rules::default()), Some(Reason::Inline));
        let text = format!("#[inline] fn a() {{ {calls} }}");
        assert!(matches!(
            judge(&text, &Rules::default()),
            Some(Reason::Small(_))
        ));
        let text = format!("#[inline] fn a() {{ {calls} {calls} }}");
        assert_eq!(judge(&text, &Rules::default()), None);
    }

    #[test]
    fn the_layout_of_a_value_is_no_loop() {
        let drop = "let layout = Layout::for_value(self.a).extend(self.b)?.0; unsafe { dealloc(self.c, layout) }";
        let found = judge(
            &format!("fn drop(&mut self) {{ {drop} }}"),
            &Rules::default(),
        );
        assert!(matches!(found, Some(Reason::Small(_))), "{found:?}");
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
