//! What callgrind counted, function by function: calls, and instructions without those of functions that it calls. A
//! function that the compiler put into its caller is no function here.
//!
//! Source: Valgrind's manual, "Callgrind Format Specification". The files are written without compression, because
//! the names are then where they are used.

use std::collections::BTreeMap;

use syn::{Type, TypePath};
use xtask::Result;

/// A function of a program, or all instances of a generic one that have one name.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Cost {
    pub(super) calls: u64,
    /// Instructions of its own.
    pub(super) own: u64,
}

/// By source file and name, as callgrind has them.
pub(super) type Costs = BTreeMap<(String, String), Cost>;

/// Adds what a file of callgrind's says.
///
/// # Errors
///
/// If the text is none, with the number of the line.
pub(super) fn add(text: &str, costs: &mut Costs) -> Result<()> {
    if !text.contains("\nevents: Ir\n") {
        return Err("it does not count instructions alone: no line `events: Ir`".to_owned());
    }
    // The file of the line at hand, which is another one where code of other functions was put in.
    let (mut file, mut caller) = (String::new(), None);
    // The callee's file is that of the line at hand unless a line says otherwise.
    let (mut callees_file, mut callee) = (None, String::new());
    let mut is_inclusive = false;
    for (number, line) in text.lines().enumerate() {
        let bad = |what: &str| format!("line {}: {what}: {line:?}", number + 1);
        let second = |words: &str| words.split(' ').nth(1)?.parse::<u64>().ok();
        match line.split_once('=') {
            Some(("fl" | "fi" | "fe", name)) => name.clone_into(&mut file),
            Some(("fn", name)) => caller = Some((file.clone(), name.to_owned())),
            Some(("cfi" | "cfl", name)) => callees_file = Some(name.to_owned()),
            Some(("cfn", name)) => name.clone_into(&mut callee),
            Some(("calls", counts)) => {
                let calls = counts.split(' ').next().map(str::parse::<u64>);
                let Some(Ok(calls)) = calls else {
                    return Err(bad("not a number of calls"));
                };
                let of_callee = callees_file.take().unwrap_or_else(|| file.clone());
                let cost = costs.entry((of_callee, callee.clone())).or_default();
                cost.calls += calls;
                is_inclusive = true;
            }
            // The line behind `calls` has what the callee took.
            None if line.starts_with(is_digit) && !std::mem::take(&mut is_inclusive) => {
                let own = second(line).ok_or_else(|| bad("not a line and a cost"))?;
                let caller = caller.clone();
                let caller = caller.ok_or_else(|| bad("a cost of no function"))?;
                costs.entry(caller).or_default().own += own;
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_digit(char: char) -> bool {
    char.is_ascii_digit()
}

/// A key that matches a function of a program with a function of its sources. It has the owner (a type or a module),
/// the trait of a trait's method, and the function's own name. Generics, references and closures are left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) owner: String,
    pub(super) of_trait: Option<String>,
    pub(super) name: String,
}

impl Key {
    /// Of a name such as `a::b::Type::method::{closure#0}` or `<a::Type<u8> as b::Trait>::method`.
    pub(super) fn parse(name: &str) -> Option<Key> {
        // Callgrind gives the inner calls of a recursive function a name of their own: `a::b'2`.
        let mut name = match name.rsplit_once('\'') {
            Some((name, level)) if level.chars().all(is_digit) => name,
            _ => name,
        };
        while let Some((function, last)) = name.rsplit_once("::")
            && last.starts_with('{')
        {
            name = function;
        }
        let TypePath { qself, path, .. } = syn::parse_str(name).ok()?;
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|all| all.ident.to_string())
            .collect();
        // Of `<Type as Trait>::method`, the path is `Trait::method`.
        let of_trait = qself.as_ref().map_or(0, |of_type| of_type.position);
        let (of_trait, rest) = segments.split_at(of_trait);
        let (name, around) = rest.split_last()?;
        let (owner, of_trait) = match (around.last(), qself) {
            // An item inside a function has one more segment, which is the function.
            (Some(owner), _) => (owner.clone(), None),
            (None, Some(of_type)) => (last_word(*of_type.ty), of_trait.last().cloned()),
            (None, None) => (String::new(), None),
        };
        Some(Key {
            owner,
            of_trait,
            name: name.clone(),
        })
    }
}

/// The last word of a type's path: `Set` of `&mut a::Set<b::C>`.
fn last_word(of_type: Type) -> String {
    match of_type {
        Type::Reference(of_type) => last_word(*of_type.elem),
        Type::Path(of_type) => {
            let last = of_type.path.segments.last();
            last.map_or_else(String::new, |last| last.ident.to_string())
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# callgrind format
version: 1
positions: line
events: Ir

fl=/w/a/src/lib.rs
fn=a::outer
10 5
fi=/rust/core.rs
900 7
fe=/w/a/src/lib.rs
12 1
cfn=a::inner
calls=3 20
12 600
fi=/w/a/src/b.rs
cfn=<a::b::B as a::T>::inner
calls=2 4
13 40

fl=/w/a/src/lib.rs
fn=a::inner
20 300

fl=/w/a/src/b.rs
fn=<a::b::B as a::T>::inner
4 40
totals: 353
";

    #[test]
    fn costs_are_without_those_of_callees() {
        let mut costs = Costs::new();
        add(TEXT, &mut costs).expect("costs");
        let of = |file: &str, name: &str| {
            let cost = &costs[&(file.to_owned(), name.to_owned())];
            (cost.calls, cost.own)
        };
        assert_eq!(of("/w/a/src/lib.rs", "a::outer"), (0, 13));
        assert_eq!(of("/w/a/src/lib.rs", "a::inner"), (3, 300));
        assert_eq!(of("/w/a/src/b.rs", "<a::b::B as a::T>::inner"), (2, 40));
        assert_eq!(costs.len(), 3);
        add(TEXT, &mut costs).expect("the second process");
        assert_eq!(costs.len(), 3);
    }

    #[test]
    fn another_form_is_an_error() {
        let mut costs = Costs::new();
        for (text, why) in [
            ("", "no line `events: Ir`"),
            ("\nevents: Ir Dr\n", "no line `events: Ir`"),
            ("\nevents: Ir\n1 2\n", "line 3: a cost of no function"),
            ("\nevents: Ir\nfn=a\n1\n", "line 4: not a line and a cost"),
            ("\nevents: Ir\nfn=a\ncalls=x 1\n", "line 4: not a number"),
        ] {
            let error = add(text, &mut costs).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn names_of_programs_and_of_sources_meet() {
        let key = |owner: &str, of_trait: Option<&str>, name: &str| Key {
            owner: owner.to_owned(),
            of_trait: of_trait.map(str::to_owned),
            name: name.to_owned(),
        };
        for (name, expected) in [
            ("a::b::C::d", key("C", None, "d")),
            ("a::b::C<T>::d::<u8>", key("C", None, "d")),
            ("<a::b::C>::d", key("C", None, "d")),
            ("<a::b::C<u8>>::d::<fn() -> a::E>", key("C", None, "d")),
            ("<C as T>::d", key("C", Some("T"), "d")),
            (
                "<&mut a::C<<X as Y>::Z> as b::T<u8>>::d::{closure#0}",
                key("C", Some("T"), "d"),
            ),
            ("a::d::{{closure}}", key("a", None, "d")),
            ("a::d", key("a", None, "d")),
            ("a::d'2", key("a", None, "d")),
            ("<a::C<'_> as T>::d", key("C", Some("T"), "d")),
            ("main", key("", None, "main")),
        ] {
            assert_eq!(Key::parse(name), Some(expected), "{name}");
        }
        assert_eq!(Key::parse("???"), None);
        assert_eq!(Key::parse(""), None);
    }
}
