//! A path to `fdr` that leads nowhere is reported where it is written.

#[cfg_attr(feature = "traced", fdr::traced(crate = nowhere::fdr))]
pub fn function() {}
