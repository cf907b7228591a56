//! Parameters of an `async fn` are dropped when they are without the attribute, and in the same order: when the future
//! ends, when it is cancelled before or after a poll, and when it panics.
#![forbid(unsafe_code)]
#![deny(warnings)]

use std::cell::RefCell;
use std::fmt::Debug;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use fdr::traced;

thread_local! {
    static LOG: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

fn log(word: &'static str) {
    LOG.with(|log| log.borrow_mut().push(word));
}

/// Logs its name when it is dropped.
#[derive(Debug)]
struct Loud(&'static str);

impl Drop for Loud {
    fn drop(&mut self) {
        log(self.0);
    }
}

impl Loud {
    fn temporary(&self) -> (Loud, &'static str) {
        (Loud("temporary"), self.0)
    }
}

struct Pair {
    a: Loud,
    b: Loud,
}

fn pair() -> Pair {
    Pair { a: Loud("pair.a"), b: Loud("pair.b") }
}

/// Pending the first time that it is polled.
struct Waits(bool);

impl Future for Waits {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// How a future ends: it is polled so often, and may panic behind the wait.
const ENDS: [(usize, bool); 4] = [(0, false), (1, false), (2, false), (2, true)];

thread_local! {
    static PANICS: RefCell<bool> = const { RefCell::new(false) };
}

async fn wait() {
    Waits(false).await;
    if PANICS.with(|panics| *panics.borrow()) {
        panic::resume_unwind(Box::new(()));
    }
}

/// What is dropped, in order.
fn drops<F: Future>(call: impl FnOnce() -> F, (polls, panics): (usize, bool)) -> Vec<&'static str> {
    LOG.with(|log| log.borrow_mut().clear());
    PANICS.with(|word| *word.borrow_mut() = panics);
    let work = || {
        let mut future = Box::pin(call());
        log("called");
        for _ in 0..polls {
            let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            log("polled");
        }
    };
    let _ = panic::catch_unwind(AssertUnwindSafe(work));
    LOG.with(|log| log.borrow().clone())
}

/// The functions twice, with the attribute and without.
macro_rules! twins {
    ($($(#[$attribute:meta])* fn $name:ident $([$($generics:tt)*])? ($($parameters:tt)*) $(-> $output:ty)? $body:block)*) => {
        mod traced {
            use super::*;
            $(#[fdr::traced] $(#[$attribute])* pub(crate) async fn $name $(<$($generics)*>)? ($($parameters)*) $(-> $output)? $body)*
        }
        mod with_values {
            use super::*;
            $(#[fdr::traced(args, ret = ?)] $(#[$attribute])* pub(crate) async fn $name $(<$($generics)*>)? ($($parameters)*) $(-> $output)? $body)*
        }
        mod untimed {
            use super::*;
            $(#[fdr::traced(untimed)] $(#[$attribute])* pub(crate) async fn $name $(<$($generics)*>)? ($($parameters)*) $(-> $output)? $body)*
        }
        mod plain {
            use super::*;
            $($(#[$attribute])* pub(crate) async fn $name $(<$($generics)*>)? ($($parameters)*) $(-> $output)? $body)*
        }
    };
}

twins! {
    fn names(first: Loud, mut second: Loud, third: Loud) -> u32 {
        let _in_body = (third.0, first.0);
        wait().await;
        second.0 = "second, changed";
        drop(third);
        let _last = Loud("variable");
        1
    }

    #[allow(unused_variables)]
    fn unused(first: Loud, _: Loud, _third: Loud, fourth: Loud) -> u32 {
        wait().await;
        1
    }

    #[allow(unused_variables)]
    fn patterns((a, _): (Loud, Loud), ref b: Loud, Pair { a: c, b: ref d }: Pair, [_, .., mut e]: [Loud; 3], f @ Loud(_): Loud) -> u32 {
        wait().await;
        e.0 = "e, changed";
        drop(c);
        let _ = (&a, &f);
        1
    }

    #[allow(unused_variables)]
    fn shadowed(first: Loud, second: Loud) -> u32 {
        let first = Loud("variable");
        wait().await;
        let second = || Loud("closure");
        second();
        1
    }

    fn parts(x: Pair, y: Pair) -> u32 {
        drop(x.b);
        wait().await;
        let _ = (&x.a, &y.b);
        1
    }

    fn tail(first: Loud, second: Loud) -> &'static str {
        wait().await;
        let _variable = Loud("variable");
        let _ = &second;
        first.temporary().1
    }

    fn early(first: Loud, second: Loud) -> Result<u32, Loud> {
        wait().await;
        if first.0 == "first" {
            Err(second)?;
        }
        Ok(1)
    }

    fn generic['a, T: Debug, const N: usize](list: [T; N], by: &'a str, call: impl FnOnce(&'a str) -> Loud, last: Loud) -> Loud {
        wait().await;
        let _ = &last;
        drop(list);
        call(by)
    }
}

/// All that the expression drops, however its future ends.
macro_rules! assert_same {
    ($name:ident($($arguments:expr),*)) => {
        for end in ENDS {
            let plain = drops(|| plain::$name($($arguments),*), end);
            assert!(plain.len() > 1, "{:?}", plain);
            assert_eq!(drops(|| traced::$name($($arguments),*), end), plain, "{:?}", end);
            assert_eq!(drops(|| with_values::$name($($arguments),*), end), plain, "{:?}", end);
            assert_eq!(drops(|| untimed::$name($($arguments),*), end), plain, "{:?}", end);
        }
    };
}

struct Service(Loud);

impl Service {
    #[traced]
    async fn traced(&self, other: Loud, _: Loud) -> usize {
        wait().await;
        self.0.temporary().1.len() + other.0.len()
    }

    async fn plain(&self, other: Loud, _: Loud) -> usize {
        wait().await;
        self.0.temporary().1.len() + other.0.len()
    }

    #[traced]
    async fn traced_mut(&mut self, other: Loud, _: Loud) {
        wait().await;
        self.0 = other;
    }

    async fn plain_mut(&mut self, other: Loud, _: Loud) {
        wait().await;
        self.0 = other;
    }
}

fn main() {
    assert_same!(names(Loud("first"), Loud("second"), Loud("third")));
    assert_same!(unused(Loud("first"), Loud("second"), Loud("third"), Loud("fourth")));
    assert_same!(patterns(
        (Loud("a"), Loud("_")),
        Loud("b"),
        pair(),
        [Loud("e0"), Loud("e1"), Loud("e2")],
        Loud("f")
    ));
    assert_same!(shadowed(Loud("first"), Loud("second")));
    assert_same!(parts(pair(), Pair { a: Loud("y.a"), b: Loud("y.b") }));
    assert_same!(tail(Loud("first"), Loud("second")));
    assert_same!(early(Loud("first"), Loud("second")));
    assert_same!(generic([Loud("one"), Loud("two")], "x", |_| Loud("called"), Loud("last")));
    for end in ENDS {
        let service = Service(Loud("service"));
        let other = || (Loud("other"), Loud("_"));
        let call = |(other, rest)| service.plain(other, rest);
        let plain = drops(|| call(other()), end);
        let call = |(other, rest)| service.traced(other, rest);
        assert_eq!(drops(|| call(other()), end), plain, "{:?}", end);

        let mut service = Service(Loud("service"));
        let plain = drops(|| service.plain_mut(Loud("other"), Loud("_")), end);
        let mut service = Service(Loud("service"));
        assert_eq!(drops(|| service.traced_mut(Loud("other"), Loud("_")), end), plain, "{:?}", end);
    }
}
