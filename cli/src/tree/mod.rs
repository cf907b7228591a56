//! Call paths as a tree, with the time or the number of calls of each.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`call_tree`] | the paths of a trace by ids, bounded |
//! | `line` | one thread's calls as paths |
//! | [`folder`] | the sink: each thread's calls to its line, all lines to one tree |
//! | [`folding`] | a trace that was followed, as paths and rows |
//! | [`paths`] | paths by name, of several traces or two sides |
//! | [`folded_lines`], [`picture`], [`outline`] | the outputs |

pub(crate) mod call_tree;
pub(crate) mod folded_lines;
pub(crate) mod folder;
pub(crate) mod folding;
mod line;
pub(crate) mod outline;
pub(crate) mod paths;
pub(crate) mod picture;
#[cfg(test)]
pub(crate) mod tests;
