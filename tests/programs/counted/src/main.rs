//! Calls every kind of traced function a known number of times. For each it prints the count, the name and the line
//! that the trace must have.
#![deny(warnings)]

use std::future::Future;
use std::panic;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::thread;

use fdr::traced;

/// Pending for a number of polls.
struct Pending(u32);

impl Future for Pending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        Poll::Pending
    }
}

fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
}

#[rustfmt::skip]
mod inner {
    use super::{Pending, traced};

    pub const LEAF: u32 = line!() + 1;
    #[traced] pub fn leaf(x: u32) -> u32 { x + 1 }

    pub const OUT: u32 = line!() + 1;
    #[traced] pub fn out(x: u32) -> Option<u32> { if x == 0 { return None; } let y = x.checked_sub(2)?; Some(y) }

    pub const DIVERGING: u32 = line!() + 1;
    #[traced] pub fn diverging() -> ! { std::panic::resume_unwind(Box::new(())) }

    pub const GENERIC: u32 = line!() + 1;
    #[traced] pub fn generic<T, const N: usize>(list: [T; N]) -> usize { list.len() }

    pub const ABI: u32 = line!() + 1;
    #[traced] pub extern "C" fn abi() {}

    pub const POLLED: u32 = line!() + 1;
    #[traced] pub async fn polled(times: u32) { Pending(times).await; }

    pub const DIRECT: u32 = line!() + 1;
    #[traced] pub async fn direct() {}

    pub const NAMED: u32 = line!() + 1;
    #[traced(name = "a name of its own")] pub fn named() {}

    pub const MANY: u32 = line!() + 1;
    #[traced] pub fn many_calls(x: u8) -> Option<u8> {
        let add = |y: u8| x.checked_add(y);
        let sum = [add(1)?, add(2)?, add(3)?, add(4)?, add(5)?, add(6)?, add(7)?].iter().fold(0_u32, |a, b| a + u32::from(*b));
        if sum == 28 { std::panic::resume_unwind(Box::new(sum)); }
        return u8::try_from(sum).ok();
    }

    pub struct Plain;
    pub struct Holder<T>(pub T);

    pub trait Act {
        #[traced] fn by_default(&self) {}
        fn act(&self);
    }
    pub const DEFAULT: u32 = line!() - 3;

    impl Plain {
        pub const NEW: u32 = line!() + 1;
        #[traced] pub fn new() -> Plain { Plain }

        pub const NESTED: u32 = line!() + 1;
        #[traced] pub fn outer(&self) { #[traced] fn nested() {} nested(); }
    }

    impl<T: Clone> Holder<T> {
        pub const GET: u32 = line!() + 1;
        #[traced] pub fn get(&self) -> T { self.0.clone() }

        pub const LATER: u32 = line!() + 1;
        #[traced] pub async fn later(self) -> T { Pending(1).await; self.0 }
    }

    impl Act for Plain {
        #[traced] fn act(&self) {}
    }
    pub const ACT: u32 = line!() - 2;
}

use inner::{Act, Holder, Plain};

fn main() {
    panic::set_hook(Box::new(|_| {}));
    for x in 0..5 {
        inner::leaf(x);
        inner::out(x);
    }
    let threads = [1, 2].map(|_| thread::spawn(|| (0..1000).map(inner::leaf).sum::<u32>()));
    let sums = threads.map(|thread| thread.join().expect("a sum"));
    assert_eq!(sums, [500_500; 2]);
    assert!(panic::catch_unwind(|| inner::diverging()).is_err());
    assert_eq!(inner::generic([1, 2]) + inner::generic(["x"; 3]), 5);
    assert!(panic::catch_unwind(|| inner::many_calls(0)).is_err());
    assert_eq!([1, 255].map(inner::many_calls), [Some(35), None]);
    inner::abi();
    finish(inner::polled(3));
    finish(inner::direct());
    // Never polled, never recorded.
    drop(inner::polled(1));
    inner::named();
    let plain = Plain::new();
    plain.outer();
    plain.outer();
    let object: &dyn Act = &plain;
    object.by_default();
    object.act();
    assert_eq!(Holder(7).get(), 7);
    assert_eq!(finish(Holder(String::new()).later()), "");

    for (calls, name, line) in [
        (2005, "counted::inner::leaf", inner::LEAF),
        (5, "counted::inner::out", inner::OUT),
        (1, "counted::inner::diverging", inner::DIVERGING),
        (2, "counted::inner::generic", inner::GENERIC),
        (3, "counted::inner::many_calls", inner::MANY),
        (1, "counted::inner::abi", inner::ABI),
        (4, "counted::inner::polled", inner::POLLED),
        (1, "counted::inner::direct", inner::DIRECT),
        (1, "a name of its own", inner::NAMED),
        (1, "counted::inner::Plain::new", Plain::NEW),
        (2, "counted::inner::Plain::outer", Plain::NESTED),
        (2, "counted::inner::Plain::outer::nested", Plain::NESTED),
        (1, "counted::inner::Act::by_default", inner::DEFAULT),
        (1, "<counted::inner::Plain as counted::inner::Act>::act", inner::ACT),
        (1, "counted::inner::Holder::get", Holder::<u8>::GET),
        (2, "counted::inner::Holder::later", Holder::<u8>::LATER),
    ] {
        println!("{calls} {name} {line}");
    }
}
