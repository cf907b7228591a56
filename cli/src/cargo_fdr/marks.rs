//! The attribute in a source file's text: where it is put, and how it is taken out again. Both work by the places of
//! tokens, and whatever is between two places stays byte for byte.

use std::fmt;
use std::ops::Range;

use fdr_formats::filter::Filter;
use fdr_marks::items::{Attribute, Item, Kind, is_punct, split};
use fdr_marks::worth::{Reason, Rules, left_out};
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;

use crate::facts::{Decision, decision, is_mark, is_test, qualified, scope_name, step};

/// What a person chose.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) rules: Rules,
    pub(crate) filter: Option<Filter>,
}

/// Where the attribute stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// On a line of its own, as rustfmt wants it.
    OwnLine,
    /// Before the function, so that no line moves.
    SameLine,
}

/// A function of a file.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    /// As far as the source tells: `crate::module::Type::name`.
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) verdict: Verdict,
    /// Where the attribute belongs.
    place: usize,
}

/// What is done to a function.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Marked,
    /// A person's attribute decides: on the function, or around it.
    Decided(Effect),
    Test,
    Filter,
    LeftOut(Reason),
}

/// What a person's attribute does with a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Effect {
    /// It is on the function.
    Traced,
    /// `#[traced(skip)]`, on the function or around it.
    Skipped,
    /// It is around the function.
    ScopeContext(Option<Reason>),
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Traced => f.write_str("has #[traced]"),
            Effect::Skipped => f.write_str("has #[traced(skip)]"),
            Effect::ScopeContext(None) => f.write_str("marked by #[traced] around it"),
            Effect::ScopeContext(Some(reason)) => {
                write!(f, "left out by #[traced] around it: {reason}")
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Marked => f.write_str("marked"),
            Verdict::Decided(effect) => effect.fmt(f),
            Verdict::Test => f.write_str("left out: part of a test"),
            Verdict::Filter => f.write_str("left out: --filter"),
            Verdict::LeftOut(reason) => write!(f, "left out: {reason}"),
        }
    }
}

impl Verdict {
    /// The reason why a function is left out, in one of a few words.
    pub(crate) fn short(&self) -> Option<&'static str> {
        match self {
            Verdict::Marked => None,
            Verdict::Decided(_) => Some("with an attribute of their own, or around them"),
            Verdict::Test => Some("in tests"),
            Verdict::Filter => Some("by --filter"),
            Verdict::LeftOut(Reason::Const) => Some("const"),
            Verdict::LeftOut(Reason::Inline) => Some("inline"),
            Verdict::LeftOut(Reason::Statements(_) | Reason::Small(_)) => Some("small"),
            Verdict::LeftOut(Reason::Attribute(_) | Reason::NoBody) => {
                Some("that cannot be traced")
            }
        }
    }
}

/// A module that is in a file of its own. The path has the modules of this file that contain it, then the module
/// itself.
#[derive(Debug, PartialEq)]
pub(crate) struct Module {
    pub(crate) path: Vec<Step>,
}

/// One module on the way to a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// What `#[path]` says, under any condition.
    pub(crate) files: Vec<String>,
    /// Whether the `#[path]` always holds.
    pub(crate) is_fixed: bool,
    pub(crate) is_test: bool,
}

/// A file that cannot be read as Rust.
#[derive(Debug)]
pub(crate) struct NotRust {
    pub(crate) line: usize,
}

/// A source file's tokens.
pub(crate) struct Source<'a> {
    text: &'a str,
    /// How much of the text stands before the first token: a byte order mark and a `#!` line.
    skipped: usize,
    tokens: TokenStream,
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        self.tokens = TokenStream::new();
        // Without this call, the library keeps the text of each file until the program ends.
        proc_macro2::extra::invalidate_current_thread_spans();
    }
}

impl<'a> Source<'a> {
    /// # Errors
    /// Where the text is no Rust, with the line.
    pub(crate) fn parse(text: &'a str) -> Result<Source<'a>, NotRust> {
        let skipped = before_tokens(text);
        match text[skipped..].parse::<TokenStream>() {
            Ok(tokens) => Ok(Source {
                text,
                skipped,
                tokens,
            }),
            Err(error) => {
                let lines = text[..skipped].matches('\n').count();
                let line = error.span().start().line + lines;
                proc_macro2::extra::invalidate_current_thread_spans();
                Err(NotRust { line })
            }
        }
    }

    /// The functions, and the modules in files of their own. `scope` is the path of the file's module.
    pub(crate) fn find(&self, scope: &str, choice: &Choice) -> (Vec<Function>, Vec<Module>) {
        let mut finder = Finder {
            source: self,
            choice,
            functions: Vec::new(),
            modules: Vec::new(),
            steps: Vec::new(),
            line: (0, 1),
        };
        let around = ScopeContext {
            scope: scope.to_owned(),
            decision: None,
            is_test: false,
        };
        finder.items(self.tokens.clone(), &around);
        (finder.functions, finder.modules)
    }

    /// The text without the attributes that this tool wrote.
    pub(crate) fn without_marks(&self) -> Option<String> {
        let mut marks = Vec::new();
        self.marks(self.tokens.clone(), &mut marks);
        if marks.is_empty() {
            return None;
        }
        let mut text = String::with_capacity(self.text.len());
        let mut copied = 0;
        for mark in marks {
            let range = self.with_space(mark);
            text += &self.text[copied..range.start.max(copied)];
            copied = range.end.max(copied);
        }
        text += &self.text[copied..];
        Some(text)
    }

    /// The places of our attributes, wherever they have got to.
    fn marks(&self, tokens: TokenStream, marks: &mut Vec<Range<usize>>) {
        let mut before = None;
        for token in tokens {
            if let TokenTree::Group(brackets) = &token {
                match before {
                    Some(hash)
                        if is_punct(Some(&hash), '#')
                            && is_mark(&Attribute::new(hash.clone(), brackets.clone())) =>
                    {
                        marks.push(self.place(&hash).start..self.place(&token).end);
                    }
                    _ => self.marks(brackets.stream(), marks),
                }
            }
            before = Some(token);
        }
    }

    /// The range to remove with an attribute. If the attribute is alone on its line, this is the whole line. Otherwise
    /// it is the attribute and one space behind it.
    fn with_space(&self, mark: Range<usize>) -> Range<usize> {
        let behind = &self.text[mark.end..];
        let line_end = ["\n", "\r\n"]
            .into_iter()
            .find(|end| behind.starts_with(end));
        let indent = indentation(self.text, mark.start);
        match (line_end, indent) {
            (Some(end), Some(indent)) => mark.start - indent.len()..mark.end + end.len(),
            _ => mark.start..mark.end + usize::from(behind.starts_with(' ')),
        }
    }

    fn place(&self, token: &TokenTree) -> Range<usize> {
        let range = token.span().byte_range();
        range.start + self.skipped..range.end + self.skipped
    }
}

/// The text with the attribute before each function that is to have one.
pub(crate) fn with_marks(text: &str, functions: &[Function], mark: &str, layout: Layout) -> String {
    let line_end = match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    };
    let mut marked = String::with_capacity(text.len() + functions.len() * (mark.len() + 8));
    let mut copied = 0;
    for function in functions {
        if function.verdict != Verdict::Marked {
            continue;
        }
        marked += &text[copied..function.place];
        copied = function.place;
        marked += mark;
        match (layout, indentation(text, function.place)) {
            (Layout::OwnLine, Some(indent)) => {
                marked += line_end;
                marked += indent;
            }
            _ => marked.push(' '),
        }
    }
    marked += &text[copied..];
    marked
}

/// The attribute that this tool writes. `krate` is the name under which the package sees `fdr`.
pub(crate) fn mark(krate: &str) -> String {
    match krate {
        "fdr" => "#[fdr::traced(auto)]".to_owned(),
        _ => format!("#[{krate}::traced(auto, crate = {krate})]"),
    }
}

/// The spaces and tabs before a place, if there is nothing else before it on its line.
fn indentation(text: &str, place: usize) -> Option<&str> {
    let line = text[..place].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line..place];
    before
        .bytes()
        .all(|byte| matches!(byte, b' ' | b'\t'))
        .then_some(before)
}

/// A byte order mark and a `#!` line, which are no tokens.
fn before_tokens(text: &str) -> usize {
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let rest = &text[start..];
    let is_script = rest.starts_with("#!") && !rest[2..].trim_start().starts_with('[');
    match is_script {
        true => start + rest.find('\n').unwrap_or(rest.len()),
        false => start,
    }
}

/// What is known of the scope of an item.
#[derive(Clone)]
struct ScopeContext {
    scope: String,
    /// What the innermost attribute of a person decides.
    decision: Option<Decision>,
    is_test: bool,
}

struct Finder<'a> {
    source: &'a Source<'a>,
    choice: &'a Choice,
    functions: Vec<Function>,
    modules: Vec<Module>,
    /// The inline modules around the item.
    steps: Vec<Step>,
    /// A place, and its line.
    line: (usize, usize),
}

impl Finder<'_> {
    fn items(&mut self, tokens: TokenStream, around: &ScopeContext) {
        for item in split(tokens) {
            let own = decision(&item);
            let inside = ScopeContext {
                scope: match scope_name(&item) {
                    Some(name) => qualified(&around.scope, &name),
                    None => around.scope.clone(),
                },
                decision: own.clone().or_else(|| around.decision.clone()),
                is_test: around.is_test || item.attributes.iter().any(is_test),
            };
            match (item.kind, item.name()) {
                (Kind::Function, Some(name)) => {
                    self.function(&item, name, &inside, own.is_some());
                }
                (Kind::Impl | Kind::Trait, _) => self.body(item.body.as_ref(), &inside),
                (Kind::Module, Some(name)) => {
                    self.module(&item, name, inside.is_test, |finder, body| {
                        finder.items(body, &inside);
                    });
                }
                (Kind::Other, _) => self.modules_of_macro(&item, inside.is_test),
                _ => {}
            }
        }
    }

    /// A module: `inside` goes through its items, if it is not in a file of its own.
    fn module(
        &mut self,
        item: &Item,
        name: &Ident,
        is_test: bool,
        inside: impl FnOnce(&mut Self, TokenStream),
    ) {
        self.steps.push(step(item, name, is_test));
        match &item.body {
            Some(body) => inside(self, body.stream()),
            None => self.modules.push(Module {
                path: self.steps.clone(),
            }),
        }
        self.steps.pop();
    }

    /// The modules that a macro is given, as in `cfg_net! { mod net; }`. Their files have functions of the program.
    fn modules_of_macro(&mut self, item: &Item, in_test: bool) {
        let before_group = item.head.iter().rev().nth(1);
        match item.head.last() {
            Some(TokenTree::Group(given)) if is_punct(before_group, '!') => {
                self.modules_in(given.stream(), in_test);
            }
            _ => {}
        }
    }

    /// The modules among the tokens, in any braces.
    fn modules_in(&mut self, tokens: TokenStream, in_test: bool) {
        for item in split(tokens) {
            let in_test = in_test || item.attributes.iter().any(is_test);
            match (item.kind, item.name()) {
                (Kind::Module, Some(name)) => {
                    self.module(&item, name, in_test, |finder, body| {
                        finder.modules_in(body, in_test);
                    });
                }
                (Kind::Other, _) => {
                    for token in &item.head {
                        if let TokenTree::Group(group) = token {
                            self.modules_in(group.stream(), in_test);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn body(&mut self, body: Option<&Group>, around: &ScopeContext) {
        if let Some(body) = body {
            self.items(body.stream(), around);
        }
    }

    /// `is_own`: whether the decision is one about the function itself.
    fn function(&mut self, item: &Item, name: &Ident, inside: &ScopeContext, is_own: bool) {
        let Some(first) = item.head.first() else {
            return;
        };
        let place = self.source.place(first).start;
        let name = qualified(&inside.scope, &name.unraw().to_string());
        let rules = match &inside.decision {
            Some(Decision::Trace(rules)) if !is_own => rules,
            _ => &self.choice.rules,
        };
        let reason = left_out(item, rules);
        let effect = inside.decision.as_ref().map(|decision| match decision {
            Decision::Skip => Effect::Skipped,
            Decision::Trace(_) if is_own => Effect::Traced,
            Decision::Trace(_) => Effect::ScopeContext(reason),
        });
        let verdict = match (effect, reason, &self.choice.filter) {
            // A declaration is no function of the program.
            (_, Some(Reason::NoBody), _) => return,
            (Some(effect), ..) => Verdict::Decided(effect),
            _ if inside.is_test => Verdict::Test,
            (.., Some(filter)) if !filter.matches(&name) => Verdict::Filter,
            (_, Some(reason), _) => Verdict::LeftOut(reason),
            (_, None, _) => Verdict::Marked,
        };
        let line = self.line_of(place);
        self.functions.push(Function {
            name,
            line,
            verdict,
            place,
        });
    }

    /// Places come in order, so that the text is gone through once.
    fn line_of(&mut self, place: usize) -> usize {
        let (before, line) = self.line;
        let bytes = &self.source.text.as_bytes()[before..place];
        let line = line + bytes.iter().filter(|byte| **byte == b'\n').count();
        self.line = (place, line);
        line
    }
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;
