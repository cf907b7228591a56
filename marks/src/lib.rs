//! Decides which functions of a scope are worth two clock reads. The macro `#[traced]` and the tool `cargo fdr` share
//! this rule. The crate finds items in tokens, and judges bodies. It never resolves a name, because only the compiler
//! can do that.
#![forbid(unsafe_code)]

mod body_cost;
pub mod items;
pub mod worth;
