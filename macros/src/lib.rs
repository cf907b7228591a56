//! `#[traced]`.
