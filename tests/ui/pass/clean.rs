//! Code that pedantic clippy has nothing against stays such, whatever the attribute adds.
#![forbid(unsafe_code)]
#![deny(warnings)]

#![deny(clippy::all, clippy::pedantic, clippy::nursery, clippy::cargo, missing_docs)]
#![deny(rust_2018_idioms, unused, let_underscore, future_incompatible, nonstandard_style)]
#![deny(unreachable_pub, unused_qualifications, unused_lifetimes, variant_size_differences)]

use fdr::traced;
use std::future::{Future, ready};
use std::task::{Context, Poll, Waker};

#[traced]
fn text(length: usize) -> String {
    "x".repeat(length)
}

#[traced]
fn first_of(list: &[String]) -> Option<&str> {
    const FIRST: usize = 0;
    let first = list.get(FIRST)?;
    Some(first)
}

#[traced]
fn fails(x: u32) -> Result<u32, String> {
    if x == 0 {
        return Err(text(1));
    }
    Ok(x)
}

#[traced]
async fn later(list: Vec<String>, _kept: String) -> usize {
    ready(()).await;
    list.len()
}

#[traced]
async fn later_or_never(x: u32) -> Result<u32, String> {
    let x = fails(x)?;
    ready(x).await;
    Ok(x)
}

struct Thing {
    name: String,
}

impl Thing {
    #[traced]
    fn new(name: &str) -> Self {
        Self { name: name.to_string() }
    }

    #[traced]
    async fn into_name(self) -> String {
        ready(()).await;
        self.name
    }
}

fn main() {
    assert_eq!(first_of(&[text(2)]), Some("xx"));
    assert_eq!(fails(0), Err(text(1)));
    let mut context = Context::from_waker(Waker::noop());
    let mut future = Box::pin(async {
        let name = Thing::new("thing").into_name().await;
        (later(vec![name], String::new()).await, later_or_never(1).await)
    });
    assert_eq!(future.as_mut().poll(&mut context), Poll::Ready((1, Ok(1))));
}
