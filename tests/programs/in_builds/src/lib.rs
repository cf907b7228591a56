//! A library with an example.

/// A sum.
///
/// ```
/// assert_eq!(in_builds::sum(), 190);
/// ```
#[fdr::traced(always)]
pub fn sum() -> u64 {
    (0..20).sum()
}
