//! Other people's programs, for the trial and for the bench of whole programs: the packages of the registry that make
//! up each program, and both kinds of its sources. These sources are never committed.

mod sources;

pub use sources::{Kind, prepare};

/// A program. Its packages are built together, and each of them has the attribute.
pub struct Program {
    /// Of the program, and of its folder.
    pub name: &'static str,
    /// Names and versions. The versions are fixed, because a newer package may lack its tests.
    pub packages: &'static [(&'static str, &'static str)],
    /// Options without which its tests do not compile.
    pub tests: &'static str,
    /// The arguments and the standard input of a run, for programs whose packages have few tests.
    pub run: Option<(&'static str, &'static [u8])>,
}

/// All of them.
pub const PROGRAMS: [Program; 13] = [
    Program {
        name: "ripgrep",
        packages: &[
            ("globset", "0.4.21"),
            ("grep", "0.4.1"),
            ("grep-cli", "0.1.12"),
            ("grep-matcher", "0.1.9"),
            ("grep-printer", "0.3.1"),
            ("grep-regex", "0.1.14"),
            ("grep-searcher", "0.1.17"),
            ("ignore", "0.4.34"),
            ("ripgrep", "15.1.0"),
        ],
        tests: "",
        run: Some(("--bin rg -- --line-number b.t", b"a\nbat\nbut\nc\n")),
    },
    Program {
        name: "mini-redis",
        packages: &[("mini-redis", "0.4.1")],
        tests: "",
        run: None,
    },
    Program {
        name: "oxipng",
        packages: &[("oxipng", "10.1.1")],
        tests: "",
        run: Some(("--bin oxipng -- --opt max --stdout -", PICTURE)),
    },
    Program {
        name: "boa",
        packages: &[
            ("boa_ast", "0.21.1"),
            ("boa_engine", "0.21.1"),
            ("boa_gc", "0.21.1"),
            ("boa_interner", "0.21.1"),
            ("boa_macros", "0.21.1"),
            ("boa_parser", "0.21.1"),
            ("boa_string", "0.21.1"),
        ],
        tests: "",
        run: None,
    },
    // A SQL engine.
    alone("gluesql-core", &[("gluesql-core", "0.20.0")]),
    // Parsers made of closures and macros. The package of nom lacks a crate that its tests need.
    alone("winnow", &[("winnow", "1.0.5")]),
    // Crates without the standard library.
    alone("hashbrown", &[("hashbrown", "0.17.1")]),
    alone("heapless", &[("heapless", "0.9.3")]),
    // Crates of more than 100,000 lines.
    Program {
        tests: "--all-features",
        ..alone("naga", &[("naga", "30.0.1")])
    },
    alone("cranelift-codegen", &[("cranelift-codegen", "0.135.8")]),
    // A search engine.
    alone(
        "tantivy",
        &[
            ("tantivy", "0.27.0"),
            ("tantivy-bitpacker", "0.27.0"),
            ("tantivy-columnar", "0.27.0"),
            ("tantivy-common", "0.27.0"),
            ("tantivy-query-grammar", "0.27.0"),
            ("tantivy-sstable", "0.27.0"),
            ("tantivy-stacker", "0.27.0"),
        ],
    ),
    // A script engine that walks the tree.
    alone("rhai", &[("rhai", "1.27.0")]),
    alone("fd-find", &[("fd-find", "10.5.0")]),
];

/// A library, of which the tests are all that runs.
const fn alone(name: &'static str, packages: &'static [(&'static str, &'static str)]) -> Program {
    Program {
        name,
        packages,
        tests: "",
        run: None,
    }
}

/// A PNG of 16 times 16 pixels.
const PICTURE: &[u8] = include_bytes!("programs/picture.png");
