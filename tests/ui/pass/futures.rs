//! Functions that give back a future mean what they mean without the attribute.
#![deny(warnings)]
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[fdr::traced]
fn boxed(text: &str) -> Boxed<'_, usize> {
    Box::pin(async move { text.len() })
}

#[fdr::traced(args, err)]
fn result(number: u32, _unused: Rc<u32>) -> Boxed<'static, Result<u32, std::num::ParseIntError>> {
    Box::pin(async move {
        let other: u32 = "7".parse()?;
        Ok(number + other)
    })
}

/// The argument is not in the future, so it stays outside.
#[fdr::traced(args(text))]
fn elsewhere(text: &str, number: u32) -> Boxed<'static, u32> {
    let _ = text;
    Box::pin(async move { number })
}

#[fdr::traced]
fn opaque<T: Clone>(value: T) -> impl Future<Output = T> {
    let copy = value.clone();
    async move { copy }
}

#[fdr::traced]
fn local(value: Rc<u32>) -> Pin<Box<dyn Future<Output = Rc<u32>>>> {
    Box::pin(async move { value })
}

#[fdr::traced(untimed)]
fn never(_: u32) -> impl Future<Output = ()> {
    let _ = std::future::ready(());
    async {}
}

trait Service {
    fn call(&self, by: u32) -> Boxed<'_, u32>;
}

struct Sum(u32);

#[fdr::traced]
impl Service for Sum {
    #[fdr::traced(ret)]
    fn call(&self, by: u32) -> Boxed<'_, u32> {
        Box::pin(async move { self.0 + by })
    }
}

fn main() {
    let text = String::from("a");
    drop(boxed(&text));
    drop(result(1, Rc::new(2)));
    drop(elsewhere(&text, 1));
    drop(opaque(3));
    drop(local(Rc::new(4)));
    drop(never(5));
    drop(Sum(1).call(6));
}
