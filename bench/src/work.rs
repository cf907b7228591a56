//! The functions that are measured. `untraced`, `traced` and `untimed` hold the same text in one binary,
//! and differ in the attribute only; `Caller` makes calls of either, or of the floor. Bodies must stay
//! small. The compiler must not be able to inline or simplify them.

use std::hint::black_box;

#[cfg(target_arch = "x86_64")]
use crate::floor::{self, Ring};

/// An odd constant with well-mixed bits.
pub(crate) const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The argument of fib in a measurement.
const FIB: u32 = 22;

macro_rules! twin {
    ($module:ident $(, #[$attribute:meta])?) => {
        pub(crate) mod $module {
            use super::{MULTIPLIER, black_box};

            $(#[$attribute])?
            #[inline(never)]
            pub(crate) fn leaf(x: u64) -> u64 {
                black_box(x.wrapping_mul(MULTIPLIER))
            }

            // Without the black boxes the untraced twin becomes a loop.
            $(#[$attribute])?
            #[inline(never)]
            pub(crate) fn fib(n: u32) -> u64 {
                if n < 2 {
                    return u64::from(n);
                }
                black_box(fib(n - 1)).wrapping_add(black_box(fib(n - 2)))
            }

            $(#[$attribute])?
            #[inline(never)]
            pub(crate) fn chain(x: u64, steps: u32) -> u64 {
                (0..steps).fold(x, |y, _| y.wrapping_mul(MULTIPLIER) ^ 1)
            }
        }
    };
}

twin!(untraced);
twin!(traced, #[fdr::traced]);
twin!(untimed, #[fdr::traced(untimed)]);

/// What a measured function does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body {
    /// One multiply; calls do not depend on each other.
    Leaf,
    /// The naive recursive function: calls within calls.
    Fib,
    /// This number of multiplies. Each one depends on the previous one, and the first depends on the
    /// previous call.
    Chain(u32),
}

impl Body {
    pub(crate) fn parse(name: &str, steps: u32) -> Result<Body, String> {
        match name {
            "leaf" => Ok(Body::Leaf),
            "fib" => Ok(Body::Fib),
            "chain" => Ok(Body::Chain(steps)),
            _ => Err(format!("unknown body {name}: leaf, fib or chain")),
        }
    }
}

/// What is put around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    Untraced,
    /// `#[fdr::traced]`; whether it records is a matter of the environment.
    Traced,
    /// `#[fdr::traced(untimed)]`; likewise.
    Untimed,
    /// Two clock reads and two stores.
    FloorRdtscp,
    FloorRdtsc,
}

impl Variant {
    pub(crate) fn parse(name: &str) -> Result<Variant, String> {
        match name {
            "untraced" => Ok(Variant::Untraced),
            "traced" => Ok(Variant::Traced),
            "untimed" => Ok(Variant::Untimed),
            "floor-rdtscp" => Ok(Variant::FloorRdtscp),
            "floor-rdtsc" => Ok(Variant::FloorRdtsc),
            _ => Err(format!(
                "unknown variant {name}: untraced, traced, untimed, floor-rdtscp, floor-rdtsc"
            )),
        }
    }
}

/// Makes calls of one body in one variant, on the thread that it belongs to.
pub(crate) struct Caller {
    body: Body,
    variant: Variant,
    #[cfg(target_arch = "x86_64")]
    ring: Ring,
}

impl Caller {
    /// # Errors
    ///
    /// Where the floor is not written for this processor.
    pub(crate) fn new(body: Body, variant: Variant) -> Result<Caller, String> {
        if cfg!(not(target_arch = "x86_64"))
            && matches!(variant, Variant::FloorRdtscp | Variant::FloorRdtsc)
        {
            return Err("the floor is written for x86-64 only".to_owned());
        }
        Ok(Caller {
            body,
            variant,
            #[cfg(target_arch = "x86_64")]
            ring: Ring::new(),
        })
    }

    /// Makes about `count` calls and returns how many they were.
    pub(crate) fn call(&mut self, count: u64) -> u64 {
        match self.variant {
            Variant::Untraced => match self.body {
                Body::Leaf => leaf_loop(count, untraced::leaf),
                Body::Fib => fib_loop(count, untraced::fib),
                Body::Chain(steps) => chain_loop(count, steps, untraced::chain),
            },
            Variant::Traced => match self.body {
                Body::Leaf => leaf_loop(count, traced::leaf),
                Body::Fib => fib_loop(count, traced::fib),
                Body::Chain(steps) => chain_loop(count, steps, traced::chain),
            },
            Variant::Untimed => match self.body {
                Body::Leaf => leaf_loop(count, untimed::leaf),
                Body::Fib => fib_loop(count, untimed::fib),
                Body::Chain(steps) => chain_loop(count, steps, untimed::chain),
            },
            #[cfg(target_arch = "x86_64")]
            Variant::FloorRdtscp => self.call_floor::<{ floor::RDTSCP }>(count),
            #[cfg(target_arch = "x86_64")]
            Variant::FloorRdtsc => self.call_floor::<{ floor::RDTSC }>(count),
            #[cfg(not(target_arch = "x86_64"))]
            _ => unreachable!("refused by new"),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn call_floor<const CLOCK: u8>(&mut self, count: u64) -> u64 {
        let ring = &mut self.ring;
        let base = ring.base();
        let mut at = 0;
        // The cursor is a local of the loop's closure: it stays in a register.
        match self.body {
            Body::Leaf => leaf_loop(count, |x| {
                let (result, next) = floor::leaf::<CLOCK>(x, base, at);
                at = next;
                result
            }),
            Body::Fib => fib_loop(count, |n| {
                let (result, next) = floor::fib::<CLOCK>(n, base, at);
                at = next;
                result
            }),
            Body::Chain(steps) => chain_loop(count, steps, |x, steps| {
                let (result, next) = floor::chain::<CLOCK>(x, steps, base, at);
                at = next;
                result
            }),
        }
    }
}

#[inline(always)]
fn leaf_loop(count: u64, mut leaf: impl FnMut(u64) -> u64) -> u64 {
    let mut sum = 0;
    for x in 0..count {
        sum ^= leaf(x);
    }
    black_box(sum);
    count
}

#[inline(always)]
fn chain_loop(count: u64, steps: u32, mut chain: impl FnMut(u64, u32) -> u64) -> u64 {
    let steps = black_box(steps);
    let mut value = 1;
    for _ in 0..count {
        value = chain(value, steps);
    }
    black_box(value);
    count
}

#[inline(always)]
fn fib_loop(count: u64, mut fib: impl FnMut(u32) -> u64) -> u64 {
    let repeats = (count / fib_calls(FIB)).max(1);
    for _ in 0..repeats {
        black_box(fib(black_box(FIB)));
    }
    repeats * fib_calls(FIB)
}

/// How many calls fib(n) makes: 2 F(n+1) - 1.
fn fib_calls(n: u32) -> u64 {
    let (mut this, mut next) = (0_u64, 1);
    for _ in 0..=n {
        (this, next) = (next, this + next);
    }
    2 * this - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twins_agree() {
        assert_eq!(traced::leaf(7), untraced::leaf(7));
        assert_eq!(untimed::leaf(7), untraced::leaf(7));
        assert_eq!(traced::fib(12), 144);
        assert_eq!(untimed::fib(12), 144);
        assert_eq!(untraced::fib(12), 144);
        assert_eq!(traced::chain(3, 9), untraced::chain(3, 9));
        assert_eq!(untimed::chain(3, 9), untraced::chain(3, 9));
    }

    #[test]
    fn fib_calls_are_counted_right() {
        fn calls(n: u32) -> u64 {
            if n < 2 {
                1
            } else {
                1 + calls(n - 1) + calls(n - 2)
            }
        }
        for n in 0..15 {
            assert_eq!(fib_calls(n), calls(n), "fib({n})");
        }
    }
}
