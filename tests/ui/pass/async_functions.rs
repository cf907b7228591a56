//! `async fn`: inference, borrows, captures, recursion, and ways out, as without the attribute.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;
use std::cell::RefCell;
use std::error::Error;
use std::future::{Future, ready};
use std::num::ParseIntError;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

#[traced]
async fn nothing() {}

#[traced]
async fn waits() {
    ready(()).await;
}

#[traced]
async fn question(text: &str) -> Result<Vec<u32>, Box<dyn Error + Send + Sync>> {
    waits().await;
    let list = text.split(' ').map(str::parse).collect::<Result<_, ParseIntError>>()?;
    if list == [0] {
        return Err("zero".into());
    }
    Ok(list)
}

#[traced]
async fn coerced(n: u32) -> Box<dyn Fn(u32) -> u32> {
    waits().await;
    if n == 0 {
        return Box::new(|x| x);
    }
    Box::new(move |x| x + n)
}

#[traced]
async fn inferred<T: Default>(list: &[u32]) -> (Vec<u32>, T, u64) {
    waits().await;
    (list.iter().map(|x| x + 1).collect(), Default::default(), 1u8.into())
}

#[traced]
async fn lifetimes<'a>(x: &'a str, y: &str) -> &'a str {
    waits().await;
    if y.is_empty() { x } else { &x[1..] }
}

#[traced]
async fn temporaries_of_the_tail(list: Mutex<Vec<u8>>, cell: RefCell<Vec<u8>>, more: &RefCell<Vec<u8>>) -> usize {
    waits().await;
    let sum = cell.borrow().len() + more.borrow().len();
    sum + list.lock().expect("not poisoned").len()
}

#[traced]
async fn temporary_in_the_tail(list: Mutex<Vec<u8>>) -> usize {
    waits().await;
    list.lock().expect("not poisoned").len()
}

#[traced]
async fn recursive(n: u32) -> u32 {
    if n == 0 {
        return 0;
    }
    Box::pin(recursive(n - 1)).await + 1
}

#[traced]
async fn mutable(a: &mut String, mut b: String, mut unchanged: Vec<u8>) -> usize {
    waits().await;
    a.push('x');
    let c = &mut b;
    waits().await;
    c.push('z');
    unchanged.clear();
    b.len() + a.len()
}

struct Pair {
    a: String,
    b: String,
}

#[traced]
async fn destructured(Pair { a, b: ref c }: Pair, (d, [e, ..]): (u8, [u8; 2]), _: String, _f: String) -> usize {
    waits().await;
    a.len() + c.len() + usize::from(d + e)
}

#[traced]
async fn parts_moved(pair: Pair) -> String {
    drop(pair.a);
    waits().await;
    pair.b
}

#[traced]
async fn impl_trait(items: impl Iterator<Item = u32>) -> Option<impl Iterator<Item = u32>> {
    waits().await;
    let list: Vec<u32> = items.collect();
    if list.is_empty() {
        return None;
    }
    Some(list.into_iter())
}

#[traced]
async fn generic<const N: usize, T>(list: [T; N]) -> T
where
    T: Copy,
{
    waits().await;
    list[N - 1]
}

#[traced]
async fn diverges() -> ! {
    loop {
        waits().await;
        panic!("out");
    }
}

#[traced]
async fn diverges_by_another() -> ! {
    diverges().await
}

#[traced]
async fn waits_in_a_macro() -> u32 {
    macro_rules! wait {
        ($x:expr) => {
            $x.await
        };
    }
    wait!(ready(1))
}

#[traced]
async fn async_blocks(x: String) -> usize {
    let inner = async {
        if x.is_empty() {
            return 0;
        }
        waits().await;
        x.len()
    };
    inner.await
}

#[traced]
async fn loops(limit: u32) -> u32 {
    let mut turns = 0;
    'outer: loop {
        while turns < limit {
            turns += 1;
            waits().await;
            if turns == 3 {
                break 'outer turns;
            }
        }
        return 0;
    }
}

struct Transaction {
    committed: bool,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        assert!(self.committed);
    }
}

#[traced]
async fn last_write_is_read_by_drop(mut open: Transaction) {
    waits().await;
    open.committed = true;
}

impl Transaction {
    #[traced]
    async fn commit(mut self) {
        waits().await;
        self.committed = true;
    }
}

fn finished<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nothing in here waits for anything"),
    }
}

fn main() {
    finished(nothing());
    assert_eq!(finished(question("1 2")).expect("numbers"), [1, 2]);
    assert_eq!(finished(question("0")).expect_err("zero").to_string(), "zero");
    assert_eq!(finished(coerced(0))(1) + finished(coerced(1))(1), 3);
    assert_eq!(finished(inferred::<u8>(&[1])), (vec![2], 0, 1));
    assert_eq!(finished(lifetimes("ab", "x")), "b");
    let list = vec![1, 2];
    let (cell, more) = (RefCell::new(list.clone()), RefCell::new(list.clone()));
    assert_eq!(finished(temporaries_of_the_tail(Mutex::new(list.clone()), cell, &more)), 6);
    assert_eq!(finished(temporary_in_the_tail(Mutex::new(list))), 2);
    assert_eq!(finished(recursive(5)), 5);
    assert_eq!(finished(mutable(&mut String::new(), String::new(), Vec::new())), 2);
    let pair = || Pair { a: "a".into(), b: "bb".into() };
    assert_eq!(finished(destructured(pair(), (1, [2, 3]), String::new(), String::new())), 6);
    assert_eq!(finished(parts_moved(pair())), "bb");
    assert_eq!(finished(impl_trait(0..3)).map(Iterator::count), Some(3));
    assert_eq!(finished(generic([1, 2])), 2);
    finished(last_write_is_read_by_drop(Transaction { committed: false }));
    finished(Transaction { committed: false }.commit());
    drop(diverges_by_another());
    assert_eq!(finished(waits_in_a_macro()), 1);
    assert_eq!(finished(async_blocks("x".into())), 1);
    assert_eq!(finished(loops(5)), 3);
}
