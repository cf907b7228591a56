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

#[traced]
fn enter() {
    fn polled() {}
    polled();
}

fn main() {
    assert_eq!(same_names(1), 2);
    drop(same_names_in_async(::std::string::String::new(), true));
    enter();
    assert_eq!(site!("mine"), 1);
}
