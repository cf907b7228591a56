//! The process that expands the attribute, and what it compiles. A macro can't ask the compiler for these facts, so this
//! file reads the process's arguments and variables.

use std::ffi::OsStr;
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
        let program = std::env::args_os().next().unwrap_or_default();
        let is_compiler = has_argument("--crate-name") || has_argument("@");
        !is_compiler || Path::new(&program).file_stem() == Some(OsStr::new("rustdoc"))
    })
}

/// Whether clippy compiles. Some of its lints do not look into closures and futures. Clippy's output is never run.
pub(crate) fn is_clippy() -> bool {
    std::env::var_os("CLIPPY_ARGS").is_some()
}

/// The version of the program if cargo compiles a binary: that of its package. A library is left out, because it does
/// not know which program it will be part of.
pub(crate) fn program_version() -> Option<String> {
    std::env::var_os("CARGO_BIN_NAME")?;
    let version = std::env::var("CARGO_PKG_VERSION").ok()?;
    (!version.is_empty()).then_some(version)
}

fn has_argument(begin: &str) -> bool {
    std::env::args_os().any(|word| word.to_string_lossy().starts_with(begin))
}
