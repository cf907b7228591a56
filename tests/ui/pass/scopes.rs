//! Whole scopes: impl blocks, traits, inline modules, and what may be in them.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs)]
#![allow(dead_code)]

use fdr::traced;

/// A type with a default.
pub struct Point<T, const N: usize = { 1 + 1 }>([T; N]);

#[traced]
impl<T: Copy + Into<f64>, const N: usize> Point<T, N>
where
    [T; N]: Sized,
{
    //! Inner documentation stays.

    /// Not worth it.
    pub const fn new(values: [T; N]) -> Self {
        Point(values)
    }

    /// Worth it.
    pub fn length(&self) -> f64 {
        let mut sum = 0.0;
        for value in self.0 {
            let value: f64 = value.into();
            sum += value * value;
        }
        sum.sqrt()
    }

    /// With options of its own.
    #[traced(untimed)]
    #[must_use]
    pub fn first(&self) -> Option<T> {
        self.0.first().copied()
    }
}

#[traced(always)]
/// A trait.
pub trait Shape: Sized {
    /// A type.
    type Side;
    /// A constant.
    const SIDES: u32 = 3;

    /// A declaration.
    fn side(&self, number: u32) -> Self::Side;

    /// A default.
    fn sides(&self) -> u32 {
        Self::SIDES
    }
}

#[traced(min_statements = 3, skip_inline)]
mod inner {
    pub(super) static COUNT: u32 = 3;

    #[derive(Default)]
    pub(super) struct Thing {
        count: u32,
    }

    macro_rules! make {
        ($name:ident) => {
            pub(super) fn $name() {}
        };
    }
    make!(made);

    extern crate std as library;

    impl Thing {
        #[inline]
        pub(super) fn count(&mut self) -> u32 {
            self.count += COUNT;
            self.count += 1;
            self.count += 2;
            self.count
        }
    }

    pub(super) mod deeper {
        pub(in super::super) fn collatz(mut n: u64) -> u64 {
            let mut steps = 0;
            while n != 1 {
                n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
                steps += 1;
            }
            steps
        }
    }
}

#[traced(skip)]
fn not_at_all() {}

#[traced(skip)]
const fn nor_this() {}

#[traced(always)]
fn as_without() {}

#[traced(auto)]
fn by_the_tool() {}

fn main() {
    assert_eq!(Point::new([3.0_f32, 4.0]).length(), 5.0);
    assert_eq!(Point::new([1_u8, 2]).first(), Some(1));
    assert_eq!(inner::Thing::default().count(), 6);
    assert_eq!(inner::deeper::collatz(27), 111);
    inner::made();
}
