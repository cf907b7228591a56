//! A crate without a prelude.
#![forbid(unsafe_code)]
#![deny(warnings)]

#![no_implicit_prelude]

#[::fdr::traced]
fn function(x: u32) -> ::std::option::Option<u32> {
    ::std::option::Option::Some(x)
}

#[::fdr::traced]
fn question(x: u32) -> ::std::option::Option<u32> {
    ::std::option::Option::Some(function(x)? + 1)
}

#[::fdr::traced(name = "later")]
async fn later(x: u32) -> u32 {
    ::std::future::ready(x).await
}

#[::fdr::traced]
async fn never_waits(x: u32) -> u32 {
    x
}

struct Thing;

impl Thing {
    #[::fdr::traced]
    fn method(&self) -> ! {
        ::std::process::exit(0)
    }
}

fn main() {
    ::std::assert!(::std::matches!(question(1), ::std::option::Option::Some(2)));
    ::std::mem::drop((later(1), never_waits(1)));
    Thing.method();
}
