//! `impl Trait`, as argument and as result.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;
use std::fmt::Display;
use std::future::Future;

#[traced]
fn argument(items: impl IntoIterator<Item = u32>) -> u32 {
    items.into_iter().sum()
}

#[traced]
fn result(n: u32) -> impl Iterator<Item = u32> + Clone {
    (0..n).map(|x| x * 2)
}

#[traced]
fn both<'a>(x: &'a str, f: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = &'a str> + 'a {
    x.split(' ').filter(move |word| f(word))
}

#[traced]
fn closure_whose_argument_is_inferred() -> impl Fn(&u32) -> u32 {
    |x| *x + 1
}

#[traced]
fn early_out(n: u32) -> Result<impl Display, String> {
    if n == 0 {
        return Err("zero".to_string());
    }
    Ok(n)
}

#[traced]
fn boxed(n: u32) -> Box<dyn Fn(u32) -> u32> {
    if n == 0 {
        return Box::new(|x| x);
    }
    Box::new(move |x| x + n)
}

#[traced]
fn future(x: u32) -> impl Future<Output = u32> {
    std::future::ready(x)
}

trait Numbers {
    fn numbers(&self) -> impl Iterator<Item = u32>;
}

impl Numbers for [u32] {
    #[traced]
    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.iter().copied()
    }
}

fn main() {
    assert_eq!(argument(result(3).clone()), 6);
    assert_eq!(both("a bb c", |word| word.len() == 1).count(), 2);
    assert_eq!(closure_whose_argument_is_inferred()(&1), 2);
    assert!(early_out(0).is_err());
    assert_eq!(early_out(1).map(|x| x.to_string()), Ok("1".to_string()));
    assert_eq!(boxed(0)(1) + boxed(1)(1), 3);
    drop(future(1));
    assert_eq!([1, 2][..].numbers().count(), 2);
}
