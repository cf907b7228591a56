//! Futures that a program polls by hand, without an executor.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// A future that is pending this many times.
#[derive(Debug)]
pub struct Waits(pub u32);

impl Future for Waits {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

/// Polls once.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls until it is ready. Returns the result and the number of polls.
pub fn finish<T>(future: impl Future<Output = T>) -> (T, u32) {
    let mut future = pin!(future);
    let mut polls = 0;
    loop {
        polls += 1;
        if let Poll::Ready(result) = poll(future.as_mut()) {
            return (result, polls);
        }
    }
}
