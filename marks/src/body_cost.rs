//! The maximum cost of one call of a function, estimated from its source: about how many instructions it runs (without
//! the functions that it calls), whether it loops or waits, and how many statements it has. A call runs only one arm of
//! a `match` and one branch of an `if`, so only the longest one counts.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, ExprMethodCall, Ident, Macro, Pat, Path, Stmt, Token};

use crate::items::{is_in, is_punct, is_word};

/// Methods and functions that compile to a few instructions, besides those of a closure argument.
const LIGHT: &str = "and_then as_bytes as_deref as_mut as_mut_ptr as_ptr as_ref as_slice as_str borrow borrow_mut cast \
    cloned copied deref expect from_raw_parts get_mut get_unchecked get_unchecked_mut into iter len map map_err max min \
    new_unchecked ok ok_or ok_or_else size_of swap take then then_some to_bits unwrap unwrap_or unwrap_or_default \
    unwrap_or_else unwrap_unchecked wrapping_add wrapping_sub";

/// Methods that go through many values. `join` of a thread waits.
const LOOPS: &str = "all any collect concat count dedup dedup_by dedup_by_key extend find find_map fold for_each join \
    max_by max_by_key min_by min_by_key partition position product retain rposition sort sort_by sort_by_key \
    sort_unstable sort_unstable_by sum try_fold";

/// Methods that wait, with any arguments.
const WAITING: &str = "block_on blocking_lock blocking_read blocking_recv blocking_send blocking_write connect flush \
    park read_exact read_line read_to_end read_to_string recv send spawn sync_all sync_data wait wait_with_output";

/// Methods that wait if they have no arguments: `node.accept(visitor)` is no wait.
const WAITING_WITHOUT: &str = "accept lock upgradable_read";

/// Methods that wait if they have arguments: `settings.recv_timeout()` is the value of a setting.
const WAITING_WITH: &str = "park_deadline park_timeout recv_deadline recv_timeout send_deadline send_timeout sleep wait_timeout \
    wait_timeout_while wait_while";

/// Methods without arguments that take a lock or a permit if the caller looks for an error in their result, as in
/// `lock.read().unwrap()`. Without that, `register.read()` and `pool.acquire()` may be anything.
const WAITING_FOR_RESULT: &str = "acquire read write";

/// Methods that look for an error in a result.
const OF_RESULT: &str = "expect map_err ok unwrap unwrap_or_else";

/// Methods of a `Command` that wait for its process.
const WAITING_FOR_PROCESS: &str = "output status";

/// A write of all bytes (`write_all`) counts as a wait if the last word of the writer's name is one of these. Other
/// writers are usually in memory.
const WRITTEN: &str = "conn file pipe sock socket stderr stdin stdout stream tty";

/// Functions that wait for something, whatever module they are in.
const WAITS: &str = "connect park park_timeout sleep";

/// Modules and types whose functions wait for the disk or the network.
const OF_WAITS: &str = "File TcpListener TcpStream UdpSocket UnixStream fs";

const CALL: u32 = 10;
const MACRO: u32 = 40;
const BRANCH: u32 = 3;
const INDEX: u32 = 4;

/// The cost of a body.
#[derive(Default)]
pub(crate) struct BodyCost {
    /// Statements, last expressions, and each `if`, `match`, loop and arm.
    pub(crate) statements: usize,
    /// A loop, or an iterator that runs to its end.
    pub(crate) has_loop: bool,
    /// A wait for another thread, the disk or the network.
    pub(crate) has_wait: bool,
    paths: Paths,
    /// The body calls a function of `Command`. Then `output` is that of a process.
    has_command: bool,
    /// The body calls a function of `Layout`. Then `extend` is that of a layout, and no loop.
    has_layout: bool,
}

/// How many instructions the paths to a place run at most.
#[derive(Clone, Copy, Default)]
struct Paths {
    /// A path to that place.
    through: u32,
    /// A path that has left the function or its loop before.
    leaving: u32,
}

impl Paths {
    fn longest(self) -> u32 {
        self.through.max(self.leaving)
    }

    fn or(self, other: Paths) -> Paths {
        Paths {
            through: self.through.max(other.through),
            leaving: self.leaving.max(other.leaving),
        }
    }
}

impl BodyCost {
    /// Nothing, where the body holds syntax that `syn` does not know.
    pub(crate) fn estimate(body: TokenStream) -> Option<BodyCost> {
        let parse = |input: ParseStream<'_>| {
            Attribute::parse_inner(input)?;
            Block::parse_within(input)
        };
        let statements = parse.parse2(body).ok()?;
        let mut cost = BodyCost::default();
        cost.visit_statements(&statements);
        Some(cost)
    }

    /// An estimate of the instructions that one call runs at most, without the functions that it calls.
    pub(crate) fn instructions(&self) -> u32 {
        self.paths.longest()
    }

    fn add(&mut self, instructions: u32) {
        self.paths.through = self.paths.through.saturating_add(instructions);
    }

    /// Ends all paths here: the code that follows is not reachable.
    fn leave(&mut self) {
        self.paths = Paths {
            through: 0,
            leaving: self.paths.longest(),
        };
    }

    /// The paths through a branch. Afterwards `paths` has the paths before it again, for a call that does not take the
    /// branch.
    fn branch(&mut self, visit: impl FnOnce(&mut Self)) -> Paths {
        let before = self.paths;
        visit(self);
        std::mem::replace(&mut self.paths, before)
    }

    /// The longest path through a part that its paths do not leave.
    fn longest_path_in(&mut self, visit: impl FnOnce(&mut Self)) -> u32 {
        let before = std::mem::take(&mut self.paths);
        visit(self);
        std::mem::replace(&mut self.paths, before).longest()
    }

    fn visit_statements(&mut self, statements: &[Stmt]) {
        // The longest of the statements behind `cfg`s counts, because usually only one of them is compiled.
        let mut configured = 0;
        for statement in statements {
            if attributes(statement)
                .iter()
                .any(|a| a.path().is_ident("cfg"))
            {
                configured =
                    configured.max(self.longest_path_in(|cost| cost.visit_stmt(statement)));
            } else {
                self.visit_stmt(statement);
            }
        }
        self.add(configured);
    }

    /// A call of `path::name(…)`.
    fn visit_called(&mut self, path: &Path, arguments: usize) {
        let mut names = path.segments.iter().rev();
        let mut name = || {
            names
                .next()
                .map_or(String::new(), |name| name.ident.to_string())
        };
        let (name, module) = (name(), name());
        self.has_layout |= module == "Layout";
        self.has_command |= module == "Command";
        // `io::copy(from, to)` waits, and `ptr::copy(from, to, count)` shifts a list. With fewer arguments, the name
        // means one value.
        self.has_loop |= name == "copy" && arguments > if module == "io" { 1 } else { 2 };
        self.has_wait |= name != "copy" && (is_in(WAITS, &name) || is_in(OF_WAITS, &module));
        self.add(call(&name, arguments));
    }

    /// A call of `receiver.name(…)`.
    fn visit_method(&mut self, called: &ExprMethodCall) {
        let (receiver, arguments) = (&*called.receiver, called.args.len());
        let name = &*called.method.to_string();
        let is_loop = match name {
            "extend" => !self.has_layout,
            // `text.replace(old, new)` reads all of the text.
            "replace" => arguments > 1,
            // `count` of a `borrow()` does not run through an iterator.
            "count" if is_call_of(receiver, "borrow") => false,
            _ => is_in(LOOPS, name),
        };
        let is_wait = match name {
            "write_all" => last_name(receiver).is_some_and(is_written),
            // `condition.wait_for(&mut guard, time)`.
            "wait_for" | "wait_until" => {
                arguments == 2
                    && matches!(&called.args[0], Expr::Reference(guard) if guard.mutability.is_some())
            }
            _ if is_in(WAITING_FOR_PROCESS, name) => arguments == 0 && self.has_command,
            _ if arguments == 0 => is_in(WAITING_WITHOUT, name) || is_in(WAITING, name),
            _ => is_in(WAITING_WITH, name) || is_in(WAITING, name),
        };
        self.has_loop |= is_loop && !is_own(receiver);
        self.has_wait |= is_wait && !is_own(receiver);
        if is_in(OF_RESULT, name) {
            self.visit_result(receiver);
        }
        self.add(call(name, arguments));
    }

    /// An expression in whose result the body looks for an error. `data.read::<Header>()` is no lock.
    fn visit_result(&mut self, expr: &Expr) {
        if let Expr::MethodCall(called) = expr {
            self.has_wait |= is_in(WAITING_FOR_RESULT, &called.method.to_string())
                && called.args.is_empty()
                && called.turbofish.is_none()
                && !is_own(&called.receiver);
        }
    }

    /// Visits the arguments of a check, such as `assert!`. A check that succeeds costs little, but it may wait. Of its
    /// arguments, the first `run` are evaluated in a release build.
    fn visit_check(&mut self, tokens: TokenStream, run: usize) {
        let parse = |input: ParseStream<'_>| {
            let mut arguments = Vec::new();
            while arguments.len() < run && !input.is_empty() {
                arguments.push(input.parse::<Expr>()?);
                input.parse::<Option<Token![,]>>()?;
            }
            input.parse::<TokenStream>()?;
            Ok(arguments)
        };
        let (statements, has_loop) = (self.statements, self.has_loop);
        self.add(BRANCH);
        for argument in parse.parse2(tokens).unwrap_or_default() {
            self.visit_expr(&argument);
        }
        (self.statements, self.has_loop) = (statements, has_loop);
    }

    /// Visits the tokens of a macro that are no list of expressions.
    fn visit_tokens(&mut self, tokens: TokenStream) {
        let mut after_name = false;
        for token in tokens {
            let words = ["for", "loop", "while"];
            self.has_wait |= is_word(Some(&token), "await");
            self.has_loop |= words.iter().any(|word| is_word(Some(&token), word));
            let is_name = matches!(token, TokenTree::Ident(_));
            if let TokenTree::Group(group) = token {
                if after_name && group.delimiter() == Delimiter::Parenthesis {
                    self.add(CALL);
                }
                self.visit_tokens(group.stream());
            }
            after_name = is_name;
        }
    }
}

impl Visit<'_> for BodyCost {
    fn visit_block(&mut self, block: &Block) {
        self.visit_statements(&block.stmts);
    }

    fn visit_stmt(&mut self, statement: &Stmt) {
        self.statements += match statement {
            Stmt::Item(_) => 0,
            // They are counted where they are visited, or hold statements.
            Stmt::Expr(Expr::If(_) | Expr::Match(_), None) => 0,
            Stmt::Expr(Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_), None) => 0,
            Stmt::Expr(Expr::Block(_) | Expr::Unsafe(_), None) => 0,
            Stmt::Expr(..) | Stmt::Local(_) | Stmt::Macro(_) => 1,
        };
        if let Stmt::Local(local) = statement {
            if let Some(init) = local.init.as_ref().filter(|_| is_of_result(&local.pat)) {
                self.visit_result(&init.expr);
            }
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_local_init(&mut self, init: &syn::LocalInit) {
        self.visit_expr(&init.expr);
        if let Some((_, otherwise)) = &init.diverge {
            self.add(BRANCH);
            let otherwise = self.branch(|cost| {
                cost.visit_expr(otherwise);
                cost.leave();
            });
            self.paths = self.paths.or(otherwise);
        }
    }

    fn visit_item(&mut self, item: &syn::Item) {
        let inside = self.longest_path_in(|cost| visit::visit_item(cost, item));
        self.add(inside);
    }

    fn visit_expr(&mut self, expr: &Expr) {
        visit::visit_expr(self, expr);
        match expr {
            Expr::Binary(_) | Expr::Reference(_) | Expr::RawAddr(_) => self.add(1),
            Expr::Unary(unary) if !matches!(unary.op, syn::UnOp::Not(_)) => {
                // `*lock.read()` is a guard without a result.
                if matches!(unary.op, syn::UnOp::Deref(_)) {
                    self.visit_result(&unary.expr);
                }
                self.add(1);
            }
            Expr::Index(_) => self.add(INDEX),
            Expr::Try(tried) => {
                self.visit_result(&tried.expr);
                self.add(INDEX);
            }
            Expr::Await(_) => self.has_wait = true,
            Expr::Let(matched) if is_of_result(&matched.pat) => self.visit_result(&matched.expr),
            Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) => {
                self.has_loop = true;
                self.statements += 1;
            }
            Expr::Call(called) => match &*called.func {
                Expr::Path(path) => self.visit_called(&path.path, called.args.len()),
                _ => self.add(CALL),
            },
            Expr::MethodCall(called) => {
                self.visit_method(called);
            }
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => self.leave(),
            _ => {}
        }
    }

    // A pattern that may not match.
    fn visit_pat_tuple_struct(&mut self, pattern: &syn::PatTupleStruct) {
        self.add(BRANCH);
        visit::visit_pat_tuple_struct(self, pattern);
    }

    fn visit_expr_closure(&mut self, closure: &syn::ExprClosure) {
        let inside = self.longest_path_in(|cost| visit::visit_expr_closure(cost, closure));
        self.add(inside);
    }

    fn visit_expr_if(&mut self, expr: &syn::ExprIf) {
        self.statements += 1;
        self.add(BRANCH);
        self.visit_expr(&expr.cond);
        let then = self.branch(|cost| cost.visit_block(&expr.then_branch));
        if let Some((_, otherwise)) = &expr.else_branch {
            self.visit_expr(otherwise);
        }
        self.paths = self.paths.or(then);
    }

    fn visit_expr_match(&mut self, expr: &syn::ExprMatch) {
        self.statements += 1;
        self.add(BRANCH);
        self.visit_expr(&expr.expr);
        if expr.arms.iter().any(|arm| is_of_result(&arm.pat)) {
            self.visit_result(&expr.expr);
        }
        for arm in &expr.arms {
            if let Pat::Guard(guarded) = &arm.pat {
                self.add(BRANCH);
                self.visit_expr(&guarded.guard);
            }
        }
        self.statements += expr.arms.len();
        let arms = expr.arms.iter();
        let arms = arms.map(|arm| self.branch(|cost| cost.visit_expr(&arm.body)));
        self.paths = arms.fold(Paths::default(), Paths::or);
    }

    fn visit_macro(&mut self, called: &Macro) {
        let Some(name) = called.path.segments.last() else {
            return;
        };
        let tokens = called.tokens.clone();
        match name.ident.to_string().as_str() {
            "assert" | "matches" => self.visit_check(tokens, 1),
            "assert_eq" | "assert_ne" => self.visit_check(tokens, 2),
            "bail" | "panic" | "todo" | "unimplemented" | "unreachable" => {
                self.add(BRANCH);
                self.leave();
            }
            name if name.starts_with("debug_assert") => self.add(BRANCH),
            // Macros that fill a collection, or print, do so argument by argument. `select!` waits for channels or
            // futures.
            name => {
                self.has_wait |= name == "select";
                self.add(MACRO.saturating_add(CALL * commas(tokens.clone())));
                match Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens.clone()) {
                    Ok(arguments) => arguments.iter().for_each(|a| self.visit_expr(a)),
                    Err(_) => self.visit_tokens(tokens),
                }
            }
        }
    }
}

/// The attributes of a statement, where a `cfg` is likely.
fn attributes(statement: &Stmt) -> &[Attribute] {
    match statement {
        Stmt::Local(local) => &local.attrs,
        Stmt::Macro(called) => &called.attrs,
        Stmt::Expr(Expr::Block(block), _) => &block.attrs,
        Stmt::Expr(Expr::Unsafe(block), _) => &block.attrs,
        Stmt::Expr(Expr::If(expr), _) => &expr.attrs,
        Stmt::Expr(Expr::Match(expr), _) => &expr.attrs,
        Stmt::Expr(Expr::Return(expr), _) => &expr.attrs,
        Stmt::Expr(Expr::Call(call), _) => &call.attrs,
        Stmt::Expr(Expr::MethodCall(call), _) => &call.attrs,
        Stmt::Expr(..) | Stmt::Item(_) => &[],
    }
}

/// The cost of a call of that name for its caller.
fn call(name: &str, arguments: usize) -> u32 {
    let is_light = match name {
        // Of a cell.
        "get" => arguments == 0,
        "set" => arguments <= 1,
        // `Some(…)` and other constructors begin with a capital.
        _ => name.starts_with("is_") || name.starts_with(char::is_uppercase) || is_in(LIGHT, name),
    };
    if is_light { BRANCH } else { CALL }
}

fn commas(tokens: TokenStream) -> u32 {
    let is_comma = |token: &TokenTree| is_punct(Some(token), ',');
    let count = tokens.into_iter().filter(is_comma).count();
    u32::try_from(count).unwrap_or(u32::MAX / CALL)
}

/// The name that a place or a call ends in: `stream` of `self.stream`, `stdout` of `io::stdout()`.
fn last_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Path(path) => path.path.segments.last().map(|last| &last.ident),
        Expr::Field(field) => match &field.member {
            syn::Member::Named(name) => Some(name),
            syn::Member::Unnamed(_) => None,
        },
        Expr::MethodCall(called) => Some(&called.method),
        Expr::Call(called) => last_name(&called.func),
        _ => None,
    }
}

/// Whether the name ends in one of [`WRITTEN`], such as `log_file`.
fn is_written(name: &Ident) -> bool {
    let name = name.to_string();
    name.rsplit('_')
        .next()
        .is_some_and(|last| is_in(WRITTEN, last))
}

/// A method of the type's own is judged where it is written.
fn is_own(receiver: &Expr) -> bool {
    matches!(receiver, Expr::Path(path) if path.path.is_ident("self"))
}

/// Whether a pattern is `Ok(…)` or `Err(…)`.
fn is_of_result(pattern: &Pat) -> bool {
    match pattern {
        Pat::TupleStruct(pattern) => pattern.path.is_ident("Ok") || pattern.path.is_ident("Err"),
        Pat::Guard(guarded) => is_of_result(&guarded.pat),
        _ => false,
    }
}

fn is_call_of(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::MethodCall(called) if called.method == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(body: &str) -> BodyCost {
        BodyCost::estimate(body.parse().expect("tokens")).expect(body)
    }

    fn instructions(body: &str) -> u32 {
        cost(body).instructions()
    }

    #[test]
    fn what_follows_each_other_is_added() {
        assert_eq!(instructions(""), 0);
        assert_eq!(instructions("self.a"), 0);
        assert_eq!(instructions("f(a, g(b)); c.h()"), 3 * CALL);
        assert_eq!(instructions("h::<T>()"), CALL);
        assert_eq!(
            instructions("h::<Vec<T>>() + a.cast::<T>()"),
            1 + CALL + BRANCH
        );
        assert_eq!(instructions("(a as Vec<T>)(b); <T>::d(c)"), 2 * CALL);
        assert_eq!(instructions("a + b[c] * d?"), 2 + 2 * INDEX);
        assert_eq!(instructions("Some(self.a.as_ref().unwrap())"), 3 * BRANCH);
        assert_eq!(instructions("a.set(a.get()); a.is_b()"), 3 * BRANCH);
        assert_eq!(instructions("a.set(b, c); a.get(d)"), 2 * CALL);
        assert_eq!(instructions("return (a)"), 0);
    }

    #[test]
    fn of_several_branches_the_longest_counts() {
        assert_eq!(
            instructions("if a() { f(); f() } else { f() }"),
            BRANCH + 3 * CALL
        );
        assert_eq!(
            instructions("if a { f() } else if b { f(); f() } else { } g()"),
            2 * BRANCH + 3 * CALL
        );
        assert_eq!(
            instructions("match a() { B(c) => f(), D => { f(); f() } E | F => g(), }"),
            BRANCH + 3 * CALL
        );
        assert_eq!(
            instructions("match a { B if f() => { } C if f() => g(), D => h() }"),
            3 * BRANCH + 3 * CALL
        );
        assert_eq!(
            instructions("match unsafe { a() } { B => f(), _ => f() }"),
            BRANCH + 2 * CALL
        );
        assert_eq!(
            instructions("if let Some(a) = unsafe { b } { f() }"),
            2 * BRANCH + CALL
        );
        // Code that both branches run does not count as a branch.
        assert_eq!(
            instructions("f(if a { b() } else { c() })"),
            BRANCH + 2 * CALL
        );
    }

    #[test]
    fn leaving_branches_are_held_against_the_rest() {
        let fails = "if a { return Err(f(g(h(c)))); }";
        assert_eq!(
            instructions(&format!("{fails} f(); f()")),
            2 * BRANCH + 3 * CALL
        );
        assert_eq!(
            instructions(&format!("{fails} {fails} f()")),
            3 * BRANCH + 3 * CALL
        );
        assert_eq!(
            instructions(&format!("{fails} f(); f(); f(); f(); f()")),
            BRANCH + 5 * CALL
        );
        assert_eq!(instructions("if a { f(); f() } g()"), BRANCH + 3 * CALL);
        assert_eq!(
            instructions("let Some(a) = b else { f(); return g() }; h()"),
            2 * BRANCH + 2 * CALL
        );
        assert_eq!(
            instructions("match a { B => return f(g()), C => h() } i()"),
            BRANCH + 2 * CALL
        );
        assert_eq!(
            instructions("if a { unreachable!(\"{}\", f()) } g()"),
            BRANCH + CALL
        );
        assert_eq!(
            instructions("f(|| { if a { return; } g(); }); h()"),
            BRANCH + 3 * CALL
        );
    }

    #[test]
    fn of_what_stands_behind_cfgs_the_longest_counts() {
        let parts = "#[cfg(a)] { f(); f() } #[cfg(not(a))] let x = f(); #[allow(b)] g()";
        assert_eq!(instructions(parts), 3 * CALL);
        assert_eq!(
            instructions("#[cfg(a)] if b { f() } else { f() } #[cfg(c)] f()"),
            BRANCH + CALL
        );
    }

    // Under callgrind, the first of the two runs 273 instructions of its own, and the second 120.
    #[test]
    fn a_macro_counts_with_its_arguments() {
        let arguments = |count: usize| instructions(&format!("b!{{ {} }}", "A::B, ".repeat(count)));
        assert_eq!((arguments(9), arguments(3)), (130, 70));
        assert_eq!(
            instructions("assert_eq!(b, c, \"{} {} {}\", d, e(f), g)"),
            BRANCH
        );
        let checks = "assert!(f(a), b()); assert_ne!(f(), 1 + f(), \"\"); debug_assert!(f()); matches!(f(), A { .. } | B)";
        assert_eq!(instructions(checks), 4 * BRANCH + 4 * CALL + 1);
        assert_eq!(instructions("a!(b => c(d))"), MACRO + CALL);
        assert!(cost("a!(b = c => for d {})").has_loop);
    }

    #[test]
    fn statements_are_counted() {
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
            assert_eq!(cost(body).statements, statements, "{body}");
        }
    }

    #[test]
    fn unknown_syntax_costs_nobody_knows_what() {
        for body in ["super let a = 1;", "unsafe static A: u8 = 1;", "a b"] {
            assert!(
                BodyCost::estimate(body.parse().expect("tokens")).is_none(),
                "{body}"
            );
        }
    }
}
