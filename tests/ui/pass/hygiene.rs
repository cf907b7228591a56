//! Names of the body and of its surroundings that the expansion must neither see nor hide.
#![forbid(unsafe_code)]
#![deny(warnings)]

#![allow(non_camel_case_types)]

mod core {}
mod std {}
mod private {}
mod fdr {
    pub(crate) use ::fdr::traced;
}
#[allow(dead_code, non_upper_case_globals)]
mod constants {
    pub(super) const body: u8 = 1;
    pub(super) const output: u8 = 2;
    pub(super) const guard: u8 = 3;
    pub(super) static _guard: u8 = 4;
}
struct CallSite;
struct Guard;
struct __FdrHere;
#[expect(dead_code)]
struct u32;

use fdr::traced;

macro_rules! site {
    ($($any:tt)*) => {
        1
    };
}

#[traced]
fn same_names(_guard: ::core::primitive::u32) -> ::core::primitive::u32 {
    static SITE: ::core::primitive::u32 = 1;
    let output = SITE + _guard;
    let (_, _, _) = (CallSite, Guard, __FdrHere);
    output
}

#[traced]
async fn same_names_in_async(output: ::std::string::String, _guard: bool) -> ::core::primitive::usize {
    static SITE: ::core::primitive::usize = 1;
    struct __FdrHere;
    let _ = __FdrHere;
    ::core::future::ready(()).await;
    if _guard { output.len() } else { SITE }
}

mod among_constants {
    #[allow(unused_imports)]
    use super::constants::{_guard, body, guard, output};

    #[super::traced]
    pub(super) fn plain() -> ::core::primitive::u8 {
        output + guard
    }

    #[super::traced]
    pub(super) async fn awaiting() -> ::core::primitive::u8 {
        ::core::future::ready(body).await
    }
}

#[traced]
fn enter() {
    fn polled() {}
    polled();
}

fn main() {
    assert_eq!(same_names(1), 2);
    drop(same_names_in_async(::std::string::String::new(), true));
    enter();
    assert_eq!(among_constants::plain(), 5);
    drop(among_constants::awaiting());
    assert_eq!(site!("mine"), 1);
}
