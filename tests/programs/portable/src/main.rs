//! Uses each form of the attribute and each macro. It prints what its functions compute, which is the same on each
//! system.
#![deny(warnings)]

use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use fdr::sync::{Condvar, Mutex, RwLock, mpsc};
use fdr::traced;

struct Store {
    names: Vec<String>,
}

trait Count {
    #[traced]
    fn count(&self) -> usize {
        0
    }
}

impl Count for Store {
    #[traced(name = "counted by name")]
    fn count(&self) -> usize {
        self.names.len()
    }
}

#[traced]
impl Store {
    fn longest(&self) -> Option<&str> {
        let mut longest: Option<&str> = None;
        for name in &self.names {
            if longest.is_none_or(|known| known.len() < name.len()) {
                longest = Some(name);
            }
        }
        longest
    }

    #[traced(args(position, ?name, before = self.names.len()), ret)]
    fn insert(&mut self, position: usize, name: &str) -> usize {
        self.names.insert(position, name.to_owned());
        self.names.len()
    }
}

#[traced]
mod parts {
    pub(super) fn halves(text: &str) -> (&str, &str) {
        let mut middle = text.len() / 2;
        while !text.is_char_boundary(middle) {
            middle -= 1;
        }
        text.split_at(middle)
    }
}

#[traced(args, err)]
fn number(text: &str, base: u32) -> Result<u32, std::num::ParseIntError> {
    let number = u32::from_str_radix(text, base)?;
    Ok(number)
}

#[traced(args, ret = ?)]
fn first<T: Clone + std::fmt::Debug>(values: &[T], _ignored: &mut [u8]) -> Option<T> {
    values.first().cloned()
}

#[traced(untimed)]
fn double(value: u32) -> u32 {
    value * 2
}

#[traced(always)]
#[inline]
fn one() -> u32 {
    1
}

#[traced(args(id))]
async fn later(id: u32, value: &str) -> String {
    ready(()).await;
    format!("{id} {value}")
}

fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

fn locks() -> u32 {
    let (lock, condition) = (Mutex::named("jobs", 1), Condvar::new());
    *lock.lock().unwrap() += 1;
    condition.notify_all();
    let shared = RwLock::new(3);
    let (sender, receiver) = mpsc::channel();
    sender.send(*shared.read().unwrap()).unwrap();
    receiver.recv().unwrap() + *lock.lock().unwrap()
}

fn main() {
    let on = fdr::Config::new().buffer(1 << 20).enable();
    let _ = on.expect("the recorder, or nothing, starts");
    let mut store = Store { names: Vec::new() };
    let (id, path) = (7_u32, std::path::Path::new("x"));
    fdr::event!("accepted", id, bytes = 512, path = ?path);
    fdr::event!(warn: "queue full", limit = 1 << 10, ratio = 0.5, %id);
    fdr::gauge!("queue", store.names.len());
    let _span = fdr::span!("all", id);
    println!("{} {}", store.insert(0, "one"), store.insert(0, "three"));
    println!("{} {:?}", store.count(), store.longest());
    println!("{:?} {}", number("ff", 16), number("x", 10).is_err());
    println!("{:?} {:?}", first(&[1, 2], &mut []), parts::halves("ab"));
    println!("{} {} {}", double(4), one(), locks());
    println!("{}", run(later(1, "a")));
    println!("{}", run(fdr::spawned(fdr::task!("task", later(2, "b")))));
    let _ = fdr::set_filter("*");
    fdr::disable();
    assert!(!fdr::is_enabled());
    let _ = fdr::statistics();
}
