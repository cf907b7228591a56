//! Decides which functions of a scope are worth two clock reads, by their source: loops, calls, statements,
//! attributes. A function that is left out costs nothing, and its time counts as its caller's.

use std::fmt;

use crate::body_cost::BodyCost;
use crate::items::{Item, Kind};

/// The rules by which a scope leaves functions out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Every function that can be traced is worth it.
    pub always: bool,
    /// The minimum number of statements. If it is set, no other rule about the body applies.
    pub min_statements: Option<usize>,
    /// Functions with any form of `#[inline]` are left out.
    pub skip_inline: bool,
}

/// Why a function is left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// It is a `const fn`.
    Const,
    /// It is a declaration, or no function.
    NoBody,
    /// The attribute of that name keeps tracing away.
    Attribute(&'static str),
    /// A form of `#[inline]`.
    Inline,
    /// The function has only this many statements.
    Statements(usize),
    /// The function has no loop, and at most this many instructions.
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

/// A function with this many instructions or more is worth it without a loop. Two clock reads take as long as about
/// 200 instructions. The bound is lower, because calls of small functions are inlined (`cargo xtask trial --rule`
/// compares it with counts).
const WORTH: u32 = 65;

/// The bound for functions with `#[inline]`. A mark would hinder inlining: the compiler could no longer leave out the
/// part of the function that a caller does not need.
const WORTH_INLINE: u32 = 125;

/// Attributes of functions that run where no recorder can, or hold nothing but assembly.
const UNTRACEABLE: &str = "naked panic_handler alloc_error_handler lang start proc_macro proc_macro_attribute \
    proc_macro_derive";

/// Clippy's lint of functions that could be const.
const MAY_BE_CONST: &str = "missing_const_for_fn";

/// Why the function is left out of its scope, if it is. An item that is no function is [`Reason::NoBody`].
#[must_use]
pub fn left_out(item: &Item, rules: &Rules) -> Option<Reason> {
    let Some(body) = item.body.as_ref().filter(|_| item.kind == Kind::Function) else {
        return Some(Reason::NoBody);
    };
    if item.qualifier("const").is_some() {
        return Some(Reason::Const);
    }
    let has = |name: &&str| {
        let mut attributes = item.attributes.iter();
        attributes.any(|other| {
            other.path == *name || (other.path == "unsafe" && other.contains_word(name))
        })
    };
    if let Some(name) = UNTRACEABLE.split(' ').find(has) {
        return Some(Reason::Attribute(name));
    }
    if rules.always {
        return None;
    }
    // A traced function can't be const, so clippy would not ask for it, and would warn that the expectation is
    // unfulfilled.
    let mut attributes = item.attributes.iter();
    if attributes.any(|one| {
        (one.path == "expect" || one.contains_word("expect")) && one.contains_word(MAY_BE_CONST)
    }) {
        return Some(Reason::Attribute(MAY_BE_CONST));
    }
    let inline = item.attributes.iter().find(|other| other.path == "inline");
    if rules.skip_inline && inline.is_some() {
        return Some(Reason::Inline);
    }
    // A body of newer syntax can't be judged, so it is not left out.
    let cost = BodyCost::estimate(body.stream())?;
    if let Some(least) = rules.min_statements {
        let count = cost.statements;
        return (count < least).then_some(Reason::Statements(count));
    }
    if cost.has_loop || cost.has_wait {
        return None;
    }
    let least = match inline {
        None => WORTH,
        Some(inline) if inline.contains_word("always") => return Some(Reason::Inline),
        Some(_) => WORTH_INLINE,
    };
    let instructions = cost.instructions();
    (instructions < least).then_some(Reason::Small(instructions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::split;

    fn judge(text: &str, rules: &Rules) -> Option<Reason> {
        let items: Vec<Item> = split(text.parse().expect("tokens")).collect();
        assert_eq!(items.len(), 1, "{text}");
        left_out(&items[0], rules)
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
            "self.a.lock().unwrap().b",
            "self.a.lock().b",
            "let a = shared.a.read().unwrap(); a[&b].c(d)",
            "self.a.read().expect(\"no panic\").len()",
            "self.a.write().unwrap_or_else(PoisonError::into_inner).b = c",
            "self.a.read().map_err(|_| Broken)?.b",
            "self.a.read().ok()?.b",
            "match a.write() { Ok(b) => b.c, Err(_) => d }",
            "match a.write() { Ok(b) if b.c => d, e => f }",
            "if let Ok(b) = self.a.read() { b.c }",
            "let Ok(b) = self.a.read() else { return c }; b.d",
            "*self.a.read()",
            "*self.a.write() = b",
            "self.a.upgradable_read().b",
            "self.a.recv()",
            "self.a.recv_timeout(b)",
            "a.join().unwrap()",
            "b = self.a.wait(b).unwrap()",
            "self.a.wait_while(b, |c| c.d)",
            "self.a.wait_for(&mut b, c)",
            "self.a.wait()",
            "self.a.acquire().unwrap().b",
            "self.a.park(b)",
            "self.a.park_deadline(b)",
            "thread::park()",
            "a.blocking_recv()",
            "listener.accept()",
            "Command::new(a).output()",
            "let mut a = Command::new(b); a.arg(c); a.status()?",
            "select! { recv(a) -> b => b }",
            "assert!(self.a.lock().unwrap().b)",
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
            // Of a register, a pointer, a pool, a node, a setting.
            "self.a.read().bits()",
            "a.add(1).read()",
            "self.a.read(b).unwrap()",
            "let Ok(b) = self.a.read::<B>() else { return c }; b",
            "-self.a.read()",
            "a.write(b).unwrap()",
            "match self.a.read() { A::B => c, _ => d }",
            "if let Some(b) = self.a.read() { b }",
            "self.pool.acquire()",
            "self.docs.output(at)",
            "self.node.output().unwrap()",
            "self.status().a",
            "node.accept(visitor)",
            "self.settings.recv_timeout()",
            "self.settings.sleep()",
            "self.a.wait_for(b)",
            "self.a.lock(b)",
            "self.a.try_lock().ok()",
            "self.a.try_read().unwrap().b",
            "self.a.try_recv()",
            // Judged where it is written.
            "self.read().unwrap()",
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
    fn functions_that_clippy_wants_const_are_unmarked() {
        let expect = "expect(clippy::missing_const_for_fn, reason = \"its `inner` isn't\")";
        let left_out = Some(Reason::Attribute(MAY_BE_CONST));
        for (attribute, reason) in [
            (expect.to_owned(), left_out),
            (
                format!("cfg_attr(not(feature = \"a\"), {expect})"),
                left_out,
            ),
            ("allow(clippy::missing_const_for_fn)".into(), None),
            ("expect(clippy::similar_names)".into(), None),
        ] {
            let text = format!("#[{attribute}] fn a() {{ loop {{}} }}");
            assert_eq!(judge(&text, &Rules::default()), reason, "{text}");
        }
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
