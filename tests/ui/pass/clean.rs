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

#[traced(args, ret)]
fn sum_of(first: u32, mut second: u32) -> u32 {
    second += 1;
    first + second
}

#[traced(args(name, length = name.len(), list = ?list), err)]
fn find(list: &[String], name: &str) -> Result<usize, String> {
    let found = list.iter().position(|one| one == name);
    found.ok_or_else(|| name.to_string())
}

#[traced(args, ret = ?, err)]
async fn later_sum(first: u32, second: u32) -> Result<u32, String> {
    ready(()).await;
    fails(first + second)
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
    assert_eq!(sum_of(1, 2), 4);
    assert_eq!(find(&[text(1)], "x"), Ok(0));
    let mut context = Context::from_waker(Waker::noop());
    let mut future = Box::pin(async {
        let name = Thing::new("thing").into_name().await;
        (later(vec![name], String::new()).await, later_or_never(later_sum(0, 1).await.unwrap_or(1)).await)
    });
    assert_eq!(future.as_mut().poll(&mut context), Poll::Ready((1, Ok(1))));
}
