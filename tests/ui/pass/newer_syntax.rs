//! Syntax that the compiler reads and a parser library does not, or did not for long. What stands behind a `cfg` that
//! does not hold is read, and is never looked at again.
#![deny(warnings)]
#![allow(clippy::all)]

use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use fdr::traced;

fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match Pin::as_mut(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!(),
    }
}

#[traced]
fn in_a_signature<#[cfg(any())] T: use<'a>>(x: u8, #[cfg(any())] y: impl use<'a> + Sized) -> u8 {
    x + 1
}

#[traced]
async fn in_an_async_signature<#[cfg(any())] T: use<'a>>(mut x: String, (y, _): (u8, u8)) -> usize {
    ready(()).await;
    x.push('a');
    x.len() + usize::from(y)
}

#[traced(args, ret)]
fn in_a_recorded_signature<#[cfg(any())] T: use<'a>>(x: u8) -> u8 {
    x + 1
}

#[traced]
fn never_comes_back<#[cfg(any())] T: use<'a>>() -> ! {
    std::process::exit(0)
}

#[traced]
fn in_a_body(x: u8) -> u8 {
    #[cfg(any())]
    unsafe static ITEM: u8 = 1;
    #[cfg(any())]
    impl Trait for .. {}
    x + 1
}

#[traced]
async fn in_an_async_body(x: u8) -> u8 {
    #[cfg(any())]
    unsafe static ITEM: u8 = 1;
    ready(x).await + 1
}

struct Scope(u8);

#[traced(always)]
impl Scope {
    #[cfg(any())]
    fn is_never_looked_at<T: use<'a>>(&self) {}

    fn first<#[cfg(any())] T: use<'a>>(&self) -> u8 {
        self.0
    }

    fn second(&self) -> u8 {
        #[cfg(any())]
        unsafe static ITEM: u8 = 1;
        self.0
    }
}

#[traced]
mod inner {
    #[cfg(any())]
    impl Trait for .. {}

    #[cfg(any())]
    unsafe static ITEM: u8 = 1;

    pub fn is_looked_at(mut x: u8) -> u8 {
        #[cfg(any())]
        unsafe static ITEM: u8 = 1;
        while x > 9 {
            x -= 1;
        }
        x
    }
}

#[traced]
fn raw_pointers_and_constants(x: &mut [u8; const { 1 + 1 }]) -> u8 {
    let (first, second) = (&raw const x[0], &raw mut x[1]);
    // SAFETY: both are places of an array that this function has for itself.
    unsafe { *second = *first + const { 1 } };
    x[1]
}

#[traced]
fn chains(x: Option<u8>) -> u8 {
    match x {
        Some(y) if let Some(z) = y.checked_sub(1) => z,
        None => 0,
        Some(1..) => 1,
        Some(_) => 2,
    }
}

#[traced]
fn captures<'r#a, T>(x: &'r#a str, _: T) -> impl Iterator<Item = char> + use<'r#a, T> {
    x.chars()
}

#[traced]
async fn closures(called: impl AsyncFn(u8) -> u8) -> u8 {
    let own = async move |x: u8| x + 1;
    called(own(1).await).await
}

#[traced]
fn blocks_of_foreign_items() -> usize {
    unsafe extern "C" {
        safe fn abs(x: i32) -> i32;
    }
    c"ab".count_bytes() + abs(-1) as usize
}

#[traced]
fn destructures(x: (u8, u8)) -> u8 {
    let y;
    (y, _) = x;
    let Some(z) = y.checked_add(1) else { return 0 };
    'a: {
        if z > 1 {
            break 'a z;
        }
        0
    }
}

fn main() {
    assert_eq!(in_a_signature(1) + in_a_recorded_signature(1), 4);
    assert_eq!(finish(in_an_async_signature("a".to_owned(), (1, 2))), 3);
    assert_eq!(in_a_body(1) + finish(in_an_async_body(1)), 4);
    assert_eq!(Scope(1).first() + Scope(1).second(), 2);
    assert_eq!(inner::is_looked_at(11), 9);
    assert_eq!(raw_pointers_and_constants(&mut [1, 2]), 2);
    assert_eq!(chains(Some(3)), 2);
    assert_eq!(captures("ab", 1).count(), 2);
    assert_eq!(finish(closures(async |x| x + 1)), 3);
    assert_eq!(blocks_of_foreign_items(), 3);
    assert_eq!(destructures((1, 2)), 2);
    never_comes_back()
}
