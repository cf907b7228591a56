//! The list of formats. [`RECORDED`] has the formats that a recorder writes itself. With the
//! feature `read`, `every` has all formats. An export, which is written only, is in the tool:
//! `cli/src/outputs/export/`.

#[cfg(feature = "read")]
mod every;

#[cfg(feature = "read")]
pub use every::*;

pub use crate::format::Format;
#[cfg(feature = "read")]
pub use crate::format::{Opened, Opener};
use crate::text;
use crate::writer::Target;
use crate::{heph, htdump, xray};

/// The formats that a recorder writes itself. Its program has writers of no others.
pub const RECORDED: &[Format] = &[xray::FORMAT, heph::FORMAT, htdump::FORMAT];

/// The targets of the other formats, which only `fdr convert` writes.
const CONVERTED: [&str; 8] = [
    "et",
    "iet",
    "iet-prefix",
    "et2",
    "iet2",
    "iet-prefix2",
    "tcstate",
    "ctf",
];

/// Every way in which a recorder writes a trace.
pub fn recorded() -> impl Iterator<Item = &'static Target> {
    RECORDED.iter().flat_map(|format| format.targets)
}

/// Whether only `fdr convert` writes the target of this name, in upper or lower case.
#[must_use]
pub fn is_converted(name: &str) -> bool {
    CONVERTED.iter().any(|known| text::same_word(known, name))
}
