//! A chain of 25 traced `async fn` is `Send` without a `recursion_limit`: each level has one coroutine.
#![forbid(unsafe_code)]
#![deny(warnings)]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

macro_rules! chain {
    ($first:ident $second:ident $($rest:ident)*) => {
        #[fdr::traced]
        async fn $first(depth: u32, text: &str) -> u32 {
            $second(depth + 1, text).await
        }

        chain!($second $($rest)*);
    };
    ($last:ident) => {
        #[fdr::traced]
        async fn $last(depth: u32, text: &str) -> u32 {
            std::future::ready(depth + text.len() as u32).await
        }
    };
}

chain!(f01 f02 f03 f04 f05 f06 f07 f08 f09 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19 f20 f21 f22 f23 f24 f25);

fn send<T: Send>(x: T) -> T {
    x
}

fn main() {
    let future = send(f01(1, "x"));
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(depth) => assert_eq!(depth, 26),
        Poll::Pending => panic!("nothing in here waits for anything"),
    }
}
