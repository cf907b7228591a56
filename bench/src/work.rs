//! A leaf function whose calls the guard counts. The twins have the same text in one binary, and differ in the attribute
//! only. The compiler must not be able to inline or simplify them.

use std::hint::black_box;

/// An odd constant with well-mixed bits.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

macro_rules! twin {
    ($module:ident $(, #[$attribute:meta])?) => {
        pub(crate) mod $module {
            use super::{MULTIPLIER, black_box};

            $(#[$attribute])?
            #[inline(never)]
            pub(crate) fn leaf(x: u64) -> u64 {
                black_box(x.wrapping_mul(MULTIPLIER))
            }
        }
    };
}

twin!(untraced);
twin!(traced, #[fdr::traced]);
twin!(untimed, #[fdr::traced(untimed)]);

/// Calls the leaf of a twin so often.
///
/// # Errors
///
/// If there is no such twin.
pub(crate) fn call(twin: &str, count: u64) -> Result<(), String> {
    match twin {
        "untraced" => leaf_loop(count, untraced::leaf),
        "traced" => leaf_loop(count, traced::leaf),
        "untimed" => leaf_loop(count, untimed::leaf),
        _ => {
            return Err(format!("unknown twin {twin}: untraced, traced or untimed"));
        }
    }
    Ok(())
}

#[inline(always)]
fn leaf_loop(count: u64, leaf: impl Fn(u64) -> u64) {
    let mut sum = 0;
    for x in 0..count {
        sum ^= leaf(x);
    }
    black_box(sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twins_agree() {
        assert_eq!(traced::leaf(7), untraced::leaf(7));
        assert_eq!(untimed::leaf(7), untraced::leaf(7));
        assert!(call("untimed", 1).is_ok() && call("other", 1).is_err());
    }
}
