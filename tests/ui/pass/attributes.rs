//! Other attributes, before and after, and documentation comments.
#![forbid(unsafe_code)]
#![deny(warnings)]

#![deny(missing_docs)]

use fdr::traced;
use std::panic::Location;

/// Documented before.
#[traced]
/// And after.
#[inline]
pub fn documented() -> u32 {
    //! And inside.
    #![allow(unused_variables)]
    let unused = 1;
    2
}

#[inline(always)]
#[traced]
#[must_use = "as ever"]
#[cfg(all())]
#[doc(alias = "other")]
fn many() -> u32 {
    3
}

#[cfg(any())]
#[traced]
fn not_there() -> ThisTypeDoesNotExist {}

#[traced]
#[cfg(any())]
fn not_there_either() -> ThisTypeDoesNotExist {}

#[cfg_attr(all(), traced)]
#[cold]
fn conditional() -> u32 {
    4
}

#[traced]
fn with_configured_parts(x: u32, #[cfg(any())] y: ThisTypeDoesNotExist) -> u32 {
    #[cfg(any())]
    let x = y;
    #[cfg(all())]
    let x = x + 1;
    x
}

#[traced]
#[track_caller]
fn line_of_caller() -> u32 {
    Location::caller().line()
}

#[traced]
#[allow(dead_code)]
fn unused() {}

#[traced]
#[expect(unused_variables)]
fn expected(x: u32) {}

#[deprecated]
#[traced]
fn old() {}

#[traced]
fn with_attributes_on_parameters(#[allow(unused_variables)] x: u32) {}

#[test]
#[traced]
fn as_a_test() {}

fn main() {
    assert_eq!(documented() + many() + conditional(), 9);
    assert_eq!(with_configured_parts(1), 2);
    assert_eq!(line_of_caller(), line!());
    expected(1);
    #[expect(deprecated)]
    old();
    with_attributes_on_parameters(1);
}
