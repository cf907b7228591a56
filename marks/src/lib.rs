//! Which functions of a whole scope are worth two clock reads. The macro `#[traced]` and the tool `cargo fdr` share
//! this rule. The crate finds items in tokens, and judges bodies. It never asks what a name means, because nobody knows
//! that before the compiler does.
#![forbid(unsafe_code)]

mod body_cost;
pub mod items;
pub mod worth;
