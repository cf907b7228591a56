//! The language in which a CTF trace describes itself (TSDL, CTF 1.8.3, sections 7 and C). The text comes
//! from others: nesting must never be unbounded, and an error names the line.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `lexer` | text to tokens |
//! | `parser`, `scalars` | tokens to types |
//! | `blocks` | the blocks around them |
//! | [`types`] | the result |

mod blocks;
mod lexer;
mod parser;
mod scalars;
pub(super) mod types;

pub(super) use blocks::parse;
