//! Events, counters and spans in a crate without a prelude, whose constants have the names that an expansion might use.
#![forbid(unsafe_code)]
#![deny(warnings, unused)]
#![deny(clippy::all, clippy::pedantic)]
#![no_implicit_prelude]

use ::std::option::Option::{self, None, Some};

const SITE: u32 = 3;
#[allow(non_upper_case_globals)]
const site: u32 = 4;

mod core {}

fn work(number: u32) -> Option<u32> {
    let (text, only_here) = ("x", 1_u8);
    let r#type = &mut [1, 2, 3][..];
    ::fdr::event!("forms", number, value = SITE, other = site, text, debug = ?Some(number), %number, only_here,);
    ::fdr::event!("borrows", value = r#type[0], all = ?r#type);
    r#type[0] = 2;
    ::fdr::gauge!("queue", number);
    ::fdr::counter!("behind a comma", r#type.len(),);
    let _span = ::fdr::span!("span", path = "/", number);
    let plain: ::fdr::Span = ::fdr::span!("plain");
    ::std::mem::drop(plain);
    ::fdr::event!(
        warn: "returns",
        value = match number {
            0 => return None,
            number => number,
        }
    );
    ::fdr::event!(trace: "a");
    ::fdr::event!(debug: "a");
    ::fdr::event!(info: "a");
    ::fdr::event!(error: "a",);
    if number == 1 {
        ::fdr::event!("an expression", number)
    } else {
        ::fdr::gauge!("another", 1)
    }
    Some(number)
}

async fn waits(number: u32) -> u32 {
    ::fdr::event!("waits", value = ::std::future::ready(number).await);
    number
}

fn main() {
    for number in 0..3 {
        // Nothing is on, so no value is evaluated.
        ::std::assert!(::std::matches!(work(number), Some(_)));
    }
    ::std::mem::drop(waits(1));
}
