//! Marks in sources that are hard to read: in each the attribute stands exactly where it should, and is taken out
//! without a trace.

use super::*;

const MARK: &str = "#[fdr::traced(auto)]";

fn all() -> Choice {
    Choice {
        rules: Rules {
            always: true,
            ..Rules::default()
        },
        filter: None,
    }
}

fn functions(text: &str, choice: &Choice) -> Vec<Function> {
    let source = Source::parse(text).unwrap_or_else(|error| panic!("line {}: {text}", error.line));
    source.find("c", choice).0
}

fn removed(text: &str) -> Option<String> {
    let source = Source::parse(text).unwrap_or_else(|error| panic!("line {}: {text}", error.line));
    source.without_marks()
}

/// The text with `@` for each attribute, after the way back was tried.
fn marked(text: &str, layout: Layout) -> String {
    assert_eq!(removed(text), None, "{text}");
    let marked = with_marks(text, &functions(text, &all()), MARK, layout);
    if marked != text {
        assert_eq!(removed(&marked).as_deref(), Some(text), "{marked}");
    }
    marked.replace(MARK, "@")
}

#[test]
fn every_form_of_function() {
    for (text, with) in [
        ("fn a() {}", "@ fn a() {}"),
        (
            "/// é\n#[inline]\npub(crate) async unsafe fn a() { fn b() {} }",
            "/// é\n#[inline]\n@ pub(crate) async unsafe fn a() { fn b() {} }",
        ),
        (
            "#[a] /// doc\n#[cfg_attr(b, c)] fn d() {}",
            "#[a] /// doc\n#[cfg_attr(b, c)] @ fn d() {}",
        ),
        (
            "impl A { pub const fn b() {} extern \"C\" fn c() {} }",
            "impl A { pub const fn b() {} @ extern \"C\" fn c() {} }",
        ),
        (
            "pub unsafe extern \"C\" fn r#fn() {}",
            "@ pub unsafe extern \"C\" fn r#fn() {}",
        ),
        (
            "trait A { fn b(); unsafe fn c() {} }",
            "trait A { fn b(); @ unsafe fn c() {} }",
        ),
        (
            "fn a<'a, T: B<{ 1 }>>(x: &'a T) -> C<{ 2 }> where T: for<'b> Fn(&'b u8) -> D { e }",
            "@ fn a<'a, T: B<{ 1 }>>(x: &'a T) -> C<{ 2 }> where T: for<'b> Fn(&'b u8) -> D { e }",
        ),
        (
            "mod a { mod b { fn c() {} } }",
            "mod a { mod b { @ fn c() {} } }",
        ),
        (
            "impl<T> A<T> for B<fn() -> T> where T: C { fn d(self) {} }",
            "impl<T> A<T> for B<fn() -> T> where T: C { @ fn d(self) {} }",
        ),
        (
            "\u{feff}#!/bin/x\nfn a() { || { fn b() {} }; }",
            "\u{feff}#!/bin/x\n@ fn a() { || { fn b() {} }; }",
        ),
        (
            "#![allow(x)]\r\n\r\n//! é\r\nfn ä() { \"ö\" } fn b() {}\r\n",
            "#![allow(x)]\r\n\r\n//! é\r\n@ fn ä() { \"ö\" } @ fn b() {}\r\n",
        ),
        (
            "const A: &str = r#\"fn b() {} \"# ; fn c() { 'f'; b'\\''; '\\u{7d}'; } // fn d() {}",
            "const A: &str = r#\"fn b() {} \"# ; @ fn c() { 'f'; b'\\''; '\\u{7d}'; } // fn d() {}",
        ),
        (
            "/* fn a() { /* } */ */ fn b() {}",
            "/* fn a() { /* } */ */ @ fn b() {}",
        ),
    ] {
        assert_eq!(marked(text, Layout::SameLine), with);
    }
}

#[test]
fn lines_of_their_own() {
    for (text, with) in [
        ("fn a() {}\nfn b() {}", "@\nfn a() {}\n@\nfn b() {}"),
        (
            "impl A {\n\t/// x\n\tfn a() {}\n}\n",
            "impl A {\n\t/// x\n\t@\n\tfn a() {}\n}\n",
        ),
        (
            "mod a {\r\n    fn b() {}\r\n}\r\n",
            "mod a {\r\n    @\r\n    fn b() {}\r\n}\r\n",
        ),
        ("mod a { fn b() {} }\n", "mod a { @ fn b() {} }\n"),
        (
            "#[inline] fn a() {}\n  \t pub fn b() {}\n",
            "#[inline] @ fn a() {}\n  \t @\n  \t pub fn b() {}\n",
        ),
        ("\u{feff}fn a() {}\n", "\u{feff}@ fn a() {}\n"),
    ] {
        assert_eq!(marked(text, Layout::OwnLine), with);
    }
}

#[test]
fn what_is_left_as_it_is() {
    for text in [
        "macro_rules! a { () => { fn b() { loop {} } } }",
        "a! { fn b() {} }",
        "extern \"C\" { fn a(); }",
        "const fn a() {}",
        "#[unsafe(naked)] extern \"C\" fn a() { naked_asm!(\"\") }",
        "const _: () = { fn a() {} };",
        "fn f();",
        "#[fdr::traced] fn a() {}",
        "#[traced(skip)] impl A { fn a() {} }",
        "#[::fdr::traced(untimed)] fn a() {}",
        "#[cfg_attr(b, fdr::traced)] fn a() {}",
        "#[test] fn a() {}",
        "#[tokio::test(flavor = \"x\")] async fn a() {}",
        "#[cfg(test)] mod a { fn b() {} }",
        "#[cfg(all(unix, test))] impl A { fn b() {} }",
        "",
        "//! only a comment",
    ] {
        assert_eq!(marked(text, Layout::OwnLine), text);
    }
    assert_eq!(
        marked("#[cfg(not(test))] fn a() {}", Layout::SameLine),
        "#[cfg(not(test))] @ fn a() {}"
    );
}

#[test]
fn marks_are_found_after_edits() {
    for (edited, without) in [
        (
            "#[fdr::traced(auto)]\n#[inline]\nfn a() {}",
            "#[inline]\nfn a() {}",
        ),
        (
            "    #[fdr::traced(auto)] // why?\nfn a() {}",
            "    // why?\nfn a() {}",
        ),
        ("#[ fdr :: traced ( auto ) ]\nfn a() {}", "fn a() {}"),
        ("#[my::traced(auto, crate = my)] fn a() {}", "fn a() {}"),
        (
            "fn a() { #[fdr::traced(auto)]\n  fn b() {} }",
            "fn a() { fn b() {} }",
        ),
        (
            "m! {\n  #[fdr::traced(auto)]\n  fn b() {} }",
            "m! {\n  fn b() {} }",
        ),
        (
            "#[inline]#[fdr::traced(auto)]fn a() {}",
            "#[inline]fn a() {}",
        ),
    ] {
        let found = removed(edited).expect(edited);
        assert_eq!(
            found.split_whitespace().collect::<Vec<_>>(),
            without.split_whitespace().collect::<Vec<_>>()
        );
        assert!(!found.contains("auto"), "{found}");
    }
    for line in [
        "#[fdr::traced]\nfn a() {}",
        "#[fdr::traced(always)] fn a() {}",
        "// #[fdr::traced(auto)]\nfn a() {}",
        "const A: &str = \"#[fdr::traced(auto)]\";",
        "#[other(auto)] fn a() {}",
    ] {
        assert_eq!(removed(line), None, "{line}");
    }
}

#[test]
fn names_are_as_the_source_tells() {
    let text = "fn a() {} mod b { impl<T> D<T> { fn e() {} } impl<'a, T: X<Y>> F<T> for &'a [G<T>] where T: H { fn r#i() {} }\n\
                trait J { fn k() {} } }";
    let functions = functions(text, &all());
    let names: Vec<&str> = functions.iter().map(|function| &*function.name).collect();
    assert_eq!(
        names,
        [
            "c::a",
            "c::b::D::e",
            "<c::b::&'a[G<T>] as F>::i",
            "c::b::J::k"
        ]
    );
    assert_eq!(functions[3].line, 2);
}

#[test]
fn a_choice_leaves_functions_out() {
    let choice = |filter: &str| Choice {
        rules: Rules::default(),
        filter: Some(Filter::parse(filter).expect("a filter")),
    };
    let text = "fn small() {} fn large() { for a in b {} } const fn never() {}";
    let verdicts = |choice: &Choice| -> Vec<String> {
        functions(text, choice)
            .iter()
            .map(|function| function.verdict.to_string())
            .collect()
    };
    assert_eq!(
        verdicts(&choice("*")),
        [
            "left out: no loop, about 0 instructions",
            "marked",
            "left out: const fn"
        ]
    );
    assert_eq!(verdicts(&choice("c::small"))[1], "left out: --filter");
}

#[test]
fn attributes_are_judged_as_by_the_compiler() {
    let text = "#[traced] impl A { fn small() {} fn large() { for a in b {} } #[fdr::traced(skip)] fn c() { loop {} } }
                #[cfg_attr(all(a, skip), fdr::traced(always))] mod m { fn small() {} #[traced(err)] fn own() {} }
                #[traced(min_statements = 2)] impl B { fn one() { loop {} } fn two() { a(); b() }
                #[traced(skip)] mod d { fn e() {} } }";
    let functions = functions(text, &Choice::default());
    let verdicts: Vec<String> = functions
        .iter()
        .map(|function| format!("{} {}", function.name, function.verdict))
        .collect();
    assert_eq!(
        verdicts,
        [
            "c::A::small left out by #[traced] around it: no loop, about 0 instructions",
            "c::A::large marked by #[traced] around it",
            "c::A::c has #[traced(skip)]",
            "c::m::small marked by #[traced] around it",
            "c::m::own has #[traced]",
            "c::B::one left out by #[traced] around it: 1 statement",
            "c::B::two marked by #[traced] around it",
            "c::B::d::e has #[traced(skip)]",
        ]
    );
}

#[test]
fn modules_in_files() {
    let text = "mod a; pub mod r#type; #[path = \"x/y.rs\"] mod b; mod c { #[cfg(d)] mod e; }\n\
                #[cfg_attr(unix, path = \"u.rs\")] #[cfg_attr(not(unix), path = r\"w.rs\")] mod f; #[cfg(test)] mod t;\n\
                g! { pub mod g; mod h { mod i; } } if_x! { if #[cfg(x)] { mod j; } else { mod k; } }\n\
                macro_rules! l { () => { mod l; } } const M: () = { mod m {} };";
    let source = Source::parse(text).unwrap_or_else(|error| panic!("line {}", error.line));
    let modules = source.find("c", &all()).1;
    let paths: Vec<String> = modules
        .iter()
        .map(|module| {
            let steps = module.path.iter();
            let steps = steps
                .map(|step| format!("{}{:?}{}", step.name, step.files, u8::from(step.is_fixed)));
            steps.collect::<Vec<_>>().join("/")
        })
        .collect();
    assert_eq!(
        paths,
        [
            "a[]0",
            "type[]0",
            "b[\"x/y.rs\"]1",
            "c[]0/e[]0",
            "f[\"u.rs\", \"w.rs\"]0",
            "t[]0",
            "g[]0",
            "h[]0/i[]0",
            "j[]0",
            "k[]0"
        ]
    );
    assert!(modules[5].path[0].is_test);
}

#[test]
fn invalid_rust_is_named_by_line() {
    for (text, line) in [
        ("fn a() {\n\n", 1),
        ("fn a() {}\n\n\"", 3),
        ("#!/bin/x\nfn a( }", 2),
    ] {
        assert_eq!(
            Source::parse(text).err().map(|error| error.line),
            Some(line),
            "{text}"
        );
    }
}
