//! A future is `Send` with the attribute where it is without, and may be boxed as such.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Mutex;

#[traced]
async fn plain(x: &str, list: Vec<String>) -> Result<String, String> {
    ready(()).await;
    Ok(list.concat() + x)
}

#[traced]
async fn rc_is_gone_by_then() -> u32 {
    let x = {
        let x = Rc::new(1);
        *x
    };
    ready(()).await;
    x
}

#[traced]
async fn lock_is_gone_by_then(shared: &Mutex<u32>) -> u32 {
    let x = *shared.lock().expect("not poisoned");
    ready(()).await;
    x
}

#[traced]
async fn result_is_not_send() -> Rc<u32> {
    ready(()).await;
    Rc::new(1)
}

#[traced]
async fn never_waits() -> u32 {
    let x = Rc::new(1);
    *x
}

#[traced]
async fn generic<T: Send + Sync, F: Fn(&T) -> u32 + Send>(x: &T, f: F) -> u32 {
    ready(()).await;
    f(x)
}

#[traced]
fn boxed<'a>(x: &'a str) -> Pin<Box<dyn Future<Output = usize> + Send + 'a>> {
    Box::pin(async move { plain(x, Vec::new()).await.map_or(0, |text| text.len()) })
}

#[traced]
async fn calls_boxed(n: u32) -> u32 {
    if n == 0 { 0 } else { recursive_and_send(n - 1).await + 1 }
}

fn recursive_and_send(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(calls_boxed(n))
}

fn send<T: Send>(_: T) {}

fn main() {
    send(plain("x", Vec::new()));
    send(rc_is_gone_by_then());
    send(lock_is_gone_by_then(&Mutex::new(1)));
    send(result_is_not_send());
    send(never_waits());
    send(generic(&1, |x| *x));
    send(boxed("x"));
    send(calls_boxed(3));
}
