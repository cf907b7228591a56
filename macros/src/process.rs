//! The process that expands the attribute, and what it compiles. A macro can't ask the compiler for these facts, so this
//! file reads the process's arguments and variables.

use std::path::Path;
use std::sync::OnceLock;

/// Whether the crate is of edition 2015, the compiler's default. A macro can't ask a span for its edition: a span with
/// a place of the user's has the user's edition, too.
pub(crate) fn is_edition_2015() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    // The process of an editor has other arguments. A file of arguments (`@`) may contain any edition.
    *ANSWER.get_or_init(|| {
        has_argument("--crate-name")
            && !has_argument("@")
            && (!has_argument("--edition") || has_argument("--edition=2015"))
    })
}

/// Whether people read the signature of the expansion: in documentation, or in an editor.
pub(crate) fn shows_signatures() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let is_compiler = has_argument("--crate-name") || has_argument("@");
        !is_compiler || is_program("rustdoc")
    })
}

/// Whether clippy may compile. The compiler has the variable, too, when it compiles a build script for clippy.
pub(crate) fn is_clippy() -> bool {
    std::env::var_os("CLIPPY_ARGS").is_some()
}

/// Whether clippy compiles and makes no code, so that nothing can be recorded.
pub(crate) fn is_only_linted() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let makes_code =
        || arguments().any(|word| word.starts_with("--emit=") && word.contains("link"));
    *ANSWER.get_or_init(|| is_program("clippy-driver") && has_argument("--emit=") && !makes_code())
}

/// The version of the program if cargo compiles a binary: that of its package. A library is left out, because it does
/// not know which program it will be part of.
pub(crate) fn program_version() -> Option<String> {
    std::env::var_os("CARGO_BIN_NAME")?;
    let version = std::env::var("CARGO_PKG_VERSION").ok()?;
    (!version.is_empty()).then_some(version)
}

/// Whether the process runs this program.
fn is_program(name: &str) -> bool {
    let program = arguments().next().unwrap_or_default();
    Path::new(&program)
        .file_stem()
        .is_some_and(|stem| stem == name)
}

fn has_argument(begin: &str) -> bool {
    arguments().any(|word| word.starts_with(begin))
}

fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}
