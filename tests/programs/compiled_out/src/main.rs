//! Prints what its traced functions compute, and what the API says. Without the recorder, only the API's answer
//! differs: nothing is on.
#![forbid(unsafe_code)]
#![deny(warnings)]

use std::future::{Future, ready};
use std::hint::black_box;
use std::panic;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use fdr::traced;

struct Lines(Vec<String>);

trait Count {
    #[traced]
    fn count(&self) -> usize {
        0
    }
}

impl Count for Lines {
    #[traced(name = "counted by name")]
    fn count(&self) -> usize {
        self.0.len()
    }
}

#[traced]
fn sum(text: &str) -> Result<u32, std::num::ParseIntError> {
    let mut sum = 0;
    for word in text.split(' ') {
        sum += word.parse::<u32>()?;
    }
    Ok(sum)
}

#[traced]
async fn later<T: Clone>(value: &T) -> T {
    ready(()).await;
    value.clone()
}

/// What the attribute costs in bytes is measured on this one.
#[traced]
#[inline(never)]
fn leaf(x: u64) -> u64 {
    black_box(x.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

#[traced]
fn panics() -> ! {
    panic!("as it should")
}

fn main() {
    let on = fdr::Config::new().buffer(1 << 20).enable();
    let on = on.expect("the recorder, or nothing, starts");
    println!("sum {:?} {}", sum("1 2 3"), sum("x").is_err());
    println!("count {}", Lines(vec![String::new()]).count());
    println!("leaf {}", leaf(black_box(1)) % 10);
    let future = pin!(later(&7));
    if let Poll::Ready(value) = future.poll(&mut Context::from_waker(Waker::noop())) {
        println!("later {value}");
    }
    panic::set_hook(Box::new(|_| {}));
    println!("panics {}", panic::catch_unwind(|| panics()).is_err());
    fdr::disable();
    eprintln!("on {on} functions {}", fdr::statistics().functions);
}
