//! A library with an example.

/// A sum.
///
/// ```
/// assert_eq!(in_builds::sum(), 190);
/// ```
pub fn sum() -> u64 {
    gated::sum_below(20)
}
