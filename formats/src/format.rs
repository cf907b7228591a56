//! The facts about a format: its names, how its traces are recognised and opened, and the ways to write it.
//! This file must never name a format: `registry` has the list, and each format's folder has its own entry.

use crate::writer::Target;

#[cfg(feature = "read")]
pub use opener::{Opened, Opener};

/// A format that the library knows.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its short name: `xray`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// How it is recognised and opened.
    #[cfg(feature = "read")]
    pub opener: Opener,
    /// The ways to write it, by name.
    pub targets: &'static [Target],
}

#[cfg(feature = "read")]
mod opener {
    use std::path::Path;

    use crate::bytes::ReadAt;
    use crate::error::Error;
    use crate::source::Source;

    /// A trace that was opened, or why not.
    pub type Opened = Result<Box<dyn Source>, Error>;

    /// How a format is recognised and opened.
    #[derive(Clone, Copy, Debug)]
    pub enum Opener {
        /// A trace is a file.
        File {
            /// Whether a file that begins with these bytes (up to 64) may be one.
            probe: fn(&[u8]) -> bool,
            /// Opens and indexes one.
            open: fn(Box<dyn ReadAt>) -> Opened,
        },
        /// A trace is a folder.
        Folder {
            /// Whether this folder may be one.
            probe: fn(&Path) -> bool,
            /// Opens and indexes one.
            open: fn(&Path) -> Opened,
        },
    }
}
