//! The future of an `async fn` holds what it holds without the attribute: it borrows all arguments, and may be boxed,
//! handed over and called through traits as before.
#![forbid(unsafe_code)]
#![deny(warnings)]

use std::cell::Cell;
use std::fmt::{Debug, Display, Formatter};
use std::future::{ready, Future};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::{pin, Pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use fdr::traced;

#[traced]
async fn elided(x: &u32, list: &[u8]) -> usize {
    ready(()).await;
    *x as usize + list.len()
}

#[traced]
async fn in_a_path(out: &Formatter<'_>, text: Held<'_>) -> usize {
    ready(()).await;
    text.0.len() + usize::from(out.alternate())
}

#[traced]
async fn named<'a, 'b: 'a, T: Clone + 'b>(x: &'a u32, y: &'b T) -> (u32, T)
where
    T: Debug,
{
    ready(()).await;
    (*x, y.clone())
}

#[traced]
async fn unused<'a>(_x: &'a u32, _y: &u32) -> u32 {
    ready(1).await
}

#[traced]
async fn impl_arguments(x: impl Display, call: impl Fn(&str) -> usize) -> usize {
    ready(()).await;
    call(&x.to_string())
}

#[traced]
async fn impl_output<T: Clone>(x: &T) -> impl Fn() -> T {
    ready(()).await;
    let copy = x.clone();
    move || copy.clone()
}

#[traced]
async fn constant<const N: usize, T>(list: [T; N], _: &T) -> usize {
    ready(()).await;
    list.len() + N
}

#[traced]
async fn coerced(x: u32) -> Vec<Rc<Cell<u32>>> {
    ready(()).await;
    let list = (0..x).map(|n| Rc::new(Cell::new(n)));
    if x == 7 {
        return Default::default();
    }
    list.collect()
}

pub struct Held<'a>(&'a str);

impl<'a> Held<'a> {
    #[traced]
    async fn tied(&self) -> &str {
        ready(()).await;
        self.0
    }

    #[traced]
    async fn inner(&self) -> &'a str {
        ready(()).await;
        self.0
    }

    #[traced]
    async fn changed(&mut self, text: &'a str, more: &str) -> usize {
        ready(()).await;
        self.0 = text;
        more.len()
    }

    #[traced]
    async fn not_named(&mut self) -> u32 {
        ready(1).await
    }
}

trait Load {
    fn load(&self, key: &str) -> impl Future<Output = usize> + Send;
    fn local(&self, key: &str) -> impl Future<Output = usize>;
}

trait Short {
    type Value: Debug;
    #[allow(async_fn_in_trait)]
    async fn short(&mut self, by: &u32) -> Option<Self::Value>;
}

impl Load for Held<'_> {
    #[traced]
    async fn load(&self, key: &str) -> usize {
        ready(()).await;
        self.0.len() + key.len()
    }

    #[traced]
    async fn local(&self, key: &str) -> usize {
        ready(()).await;
        self.0.len() + key.len()
    }
}

impl Short for Held<'_> {
    type Value = u32;

    #[traced]
    async fn short(&mut self, by: &u32) -> Option<u32> {
        ready(()).await;
        Some(*by)
    }
}

#[traced]
async fn countdown(n: u32) -> u32 {
    if n == 0 {
        return 0;
    }
    Box::pin(countdown(n - 1)).await + 1
}

#[traced]
async fn ping(n: u32) -> u32 {
    if n == 0 { 0 } else { pong(n - 1).await + 1 }
}

fn pong(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(ping(n))
}

/// A handler of a service.
trait Handler<A> {
    type Future: Future;
    fn call(self, argument: A) -> Self::Future;
}

impl<F: FnOnce(A) -> U, A, U: Future + Send + 'static> Handler<A> for F {
    type Future = U;
    fn call(self, argument: A) -> U {
        self(argument)
    }
}

#[traced]
async fn handler((name, _): (String, u32)) -> usize {
    ready(()).await;
    name.len()
}

fn borrows<F: for<'a> Borrows<'a>>(_: F) {}

trait Borrows<'a> {}

impl<'a, F: FnOnce(&'a u32) -> U, U: Future<Output = u32> + 'a> Borrows<'a> for F {}

#[traced]
async fn borrowed(x: &u32) -> u32 {
    ready(*x).await
}

/// The future borrows its arguments, even those that the body does not name.
fn holds<'a, T>(future: impl Future<Output = T> + 'a, _: &'a u32) -> T {
    finished(future)
}

fn finished<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nothing in here waits for anything"),
    }
}

fn send<T: Send>(x: T) -> T {
    x
}

fn is_safe_to_unwind<T: UnwindSafe + RefUnwindSafe>(_: &T) {}

struct Shown;

impl Debug for Shown {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let length = finished(in_a_path(out, Held("ab")));
        write!(out, "{}", length)
    }
}

fn main() {
    let one = 1;
    assert_eq!(finished(send(elided(&one, &[1, 2]))), 3);
    assert_eq!(format!("{:?} {:#?}", Shown, Shown), "2 3");
    assert_eq!(holds(named(&one, &String::from("x")), &one), (1, String::from("x")));
    assert_eq!(holds(unused(&one, &2), &one), 1);
    assert_eq!(finished(impl_arguments(12, |text| text.len())), 2);
    assert_eq!(finished(impl_output(&3))(), 3);
    assert_eq!(finished(constant([1, 2], &3)), 4);
    assert_eq!(finished(coerced(2)).len(), 2);
    let text = String::from("abc");
    let mut held = Held("ab");
    assert_eq!(finished(send(held.tied())), "ab");
    assert_eq!(finished(held.inner()), "ab");
    assert_eq!(finished(send(held.changed(&text, "x"))), 1);
    assert_eq!(finished(held.not_named()), 1);
    assert_eq!(finished(send(held.load("d"))), 4);
    assert_eq!(finished(held.local("d")), 4);
    assert_eq!(finished(held.short(&5)), Some(5));
    assert_eq!(finished(countdown(5)), 5);
    assert_eq!(finished(send(ping(5))), 5);
    assert_eq!(finished(Box::pin(Handler::call(handler, (text, 1))) as Pin<Box<dyn Future<Output = usize> + Send>>), 3);
    borrows(borrowed);
    assert_eq!(finished(borrowed(&4)), 4);
    is_safe_to_unwind(&handler((String::new(), 1)));
}
