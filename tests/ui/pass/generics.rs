//! Generics, const generics, lifetimes, where clauses.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;
use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::marker::PhantomData;

#[traced]
fn generic<T: Display + ?Sized, U>(x: &T, make: U) -> String
where
    U: FnOnce(&str) -> String,
{
    make(&x.to_string())
}

#[traced]
fn const_generic<const N: usize, const FLAG: bool, T: Copy>(list: [T; N]) -> Option<T> {
    if FLAG { list.first().copied() } else { list.last().copied() }
}

#[traced]
fn lifetimes<'a, 'b: 'a>(x: &'a str, y: &'b str) -> &'a str {
    if x.is_empty() { y } else { x }
}

#[traced]
fn elided(x: &str) -> Cow<'_, str> {
    Cow::Borrowed(x)
}

#[traced]
fn higher_ranked<F>(f: F) -> usize
where
    F: for<'a> Fn(&'a str) -> &'a str,
{
    f("abc").len()
}

#[traced]
fn function_pointers(f: fn(u32) -> u32, g: &dyn Fn(u32) -> u32) -> u32 {
    f(g(1))
}

struct Holder<'a, T, const N: usize> {
    list: [T; N],
    name: &'a str,
}

impl<'a, T: Debug, const N: usize> Holder<'a, T, N> {
    const DOUBLE: usize = N * 2;

    #[traced]
    fn name(&self) -> &'a str {
        self.name
    }

    #[traced]
    fn map<U, F: FnMut(T) -> U>(self, f: F) -> Holder<'a, U, N> {
        Holder { list: self.list.map(f), name: self.name }
    }

    #[traced]
    fn sized() -> (usize, PhantomData<T>) {
        (Self::DOUBLE, PhantomData)
    }
}

trait Convert<T> {
    fn convert(&self) -> T;
}

impl<T> Convert<Vec<T>> for Option<T>
where
    T: Clone,
{
    #[traced]
    fn convert(&self) -> Vec<T> {
        self.iter().cloned().collect()
    }
}

fn main() {
    assert_eq!(generic("x", |x| format!("{x}!")), "x!");
    assert_eq!(const_generic::<2, true, _>([1, 2]), Some(1));
    assert_eq!(const_generic::<2, false, _>([1, 2]), Some(2));
    assert_eq!(lifetimes("", "y"), "y");
    assert_eq!(elided("z"), "z");
    assert_eq!(higher_ranked(|x| &x[1..]), 2);
    assert_eq!(function_pointers(|x| x + 1, &|x| x * 3), 4);
    let holder = Holder { list: [1, 2, 3], name: "n" }.map(|x| x.to_string());
    assert_eq!((holder.name(), holder.list.len()), ("n", 3));
    assert_eq!(Holder::<u8, 4>::sized().0, 8);
    assert_eq!(Some(1).convert(), [1]);
}
