//! A library with the attribute behind a feature. It must build without a warning, with the feature and without it.
#![deny(warnings)]
#![forbid(unsafe_code)]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A list of numbers.
pub struct List(Vec<u32>);

// The attribute of a scope sees those of its functions as they are written: within `cfg_attr`.
#[cfg_attr(feature = "fdr", fdr::traced)]
impl List {
    /// The numbers below the given one.
    pub fn below(end: u32) -> List {
        let mut list = List(Vec::new());
        for number in 0..end {
            list.push(number);
        }
        list
    }

    // It has a loop, and one call of many that the library makes.
    #[cfg_attr(feature = "fdr", fdr::traced(skip))]
    fn push(&mut self, number: u32) {
        while self.0.len() > 100 {
            self.0.pop();
        }
        self.0.push(number);
    }

    // It is not worth two clock reads.
    #[cfg_attr(feature = "fdr", fdr::traced(always))]
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The sum of all numbers below the given one.
#[cfg_attr(feature = "fdr", fdr::traced)]
pub fn sum_below(end: u32) -> u64 {
    let list = List::below(end);
    (0..list.len()).map(|at| of_list(&list, at)).sum()
}

#[cfg_attr(feature = "fdr", fdr::traced(untimed, name = "gated::number"))]
fn of_list(list: &List, at: usize) -> u64 {
    list.0.get(at).copied().unwrap_or(0).into()
}

#[cfg_attr(feature = "fdr", fdr::traced)]
async fn waits(number: u32) -> u32 {
    std::future::ready(number).await + 1
}

/// One more than the number, by a future.
pub fn one_more(number: u32) -> Option<u32> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(waits(number)).poll(&mut context) {
        Poll::Ready(number) => Some(number),
        Poll::Pending => None,
    }
}
