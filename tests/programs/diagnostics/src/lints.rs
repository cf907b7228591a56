//! Functions that the compiler and clippy have something to say about. What they say must be the
//! same, word for word and column for column, with the attribute and without. The few lints that fall
//! silent are in the documentation of the attribute, and not in here.
#![warn(unused, clippy::all, clippy::pedantic, clippy::nursery)]
// Not with the attribute: a traced function cannot be `const`.
#![allow(clippy::missing_const_for_fn)]
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::rc::Rc;
use std::sync::Mutex;

pub struct Thing {
    pub size: u32,
    pub parts: Vec<String>,
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn unused_in_every_way(count: u32, mut total: u32, (left, right): (u8, u8)) -> u32 {
    let first = 1;
    let mut second = 2;
    let third;
    third = 3;
    let mut fourth = 4;
    fourth = 5;
    second
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn needless_return(x: u32) -> u32 {
    return x;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn unreachable() -> u32 {
    return 1;
    let x = 2;
    x
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn let_and_return(x: u32) -> u32 {
    let y = x.pow(2);
    y
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn items_in_front(x: u32) -> u32 {
    use std::cmp::max;
    const LIMIT: u32 = 3;
    fn inner(x: u32) -> u32 {
        max(x, LIMIT)
    }
    #[cfg(test)]
    struct Hidden;
    inner(x)
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn items_behind(x: u32) -> u32 {
    const FIRST: u32 = 3;
    println!("{x}");
    const LIMIT: u32 = 3;
    fn inner(x: u32) -> u32 {
        x.max(LIMIT)
    }
    struct Never;
    inner(x + FIRST)
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn only_items() {
    fn unused() {}
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn inner_attributes(x: u32) {
    #![allow(unused_variables)]
    //! Documentation inside.
    let y = 1;
    drop(x);
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn by_value(text: String, list: Vec<u32>) -> usize {
    text.len() + list.len()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn dead() -> u32 {
    1
}

#[cfg_attr(feature = "traced", fdr::traced)]
fn never_called(x: u32) -> u32 {
    x
}

#[must_use]
#[cfg_attr(feature = "traced", fdr::traced)]
pub fn must_use() -> u32 {
    1
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn drops_it() {
    must_use();
    awaits_nothing(1);
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn panics(x: Option<u32>) -> Result<u32, String> {
    if x.is_none() {
        panic!("none");
    } else {
        return Ok(x.unwrap());
    }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn casts_and_shadows(x: u64, y: &String) -> u32 {
    let x = x as u32;
    let x = x + y.len() as u32;
    if x == 0 { false } else { true };
    match x {
        1 => (),
        _ => (),
    }
    (x)
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn empty_line_and_semicolon() {
    ;
    println!("{}", 1)
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn impls(items: impl Iterator<Item = u32>) -> impl Display {
    let sum: u32 = items.map(|x| x).sum();
    format!("{}", sum)
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn underscore(_kept: u32, _used: u32) -> u32 {
    _used + 1
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn diverges() -> ! {
    loop {}
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn recursion_only(x: u32, depth: u32) -> u32 {
    if x == 0 { 0 } else { recursion_only(x - 1, depth) }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn endless(x: u32) -> u32 {
    endless(x)
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn expectations(x: u32) {
    #[expect(unused_variables)]
    let y = x;
    #[expect(unused_mut)]
    let z = x;
    let _ = z;
}

#[expect(clippy::needless_pass_by_value)]
#[cfg_attr(feature = "traced", fdr::traced)]
pub fn expectation_outside(x: String) -> usize {
    x.len()
}

#[deprecated]
#[cfg_attr(feature = "traced", fdr::traced)]
pub fn deprecated() {}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn calls_deprecated() {
    deprecated();
}

impl Thing {
    #[cfg_attr(feature = "traced", fdr::traced)]
    pub fn new(size: u32) -> Self {
        let thing = Thing { size: size, parts: Vec::new() };
        thing
    }

    #[cfg_attr(feature = "traced", fdr::traced)]
    pub fn unused_self(&self, x: u32) -> u32 {
        x
    }

    #[cfg_attr(feature = "traced", fdr::traced)]
    pub fn needless_mut(&mut self) -> u32 {
        self.size
    }

    #[cfg_attr(feature = "traced", fdr::traced)]
    pub fn consumes(self) -> u32 {
        self.size
    }

    #[cfg_attr(feature = "traced", fdr::traced)]
    pub fn mutable(mut self) -> u32 {
        self.size
    }

    #[cfg_attr(feature = "traced", fdr::traced)]
    pub async fn async_unused_self(&self, other: &Self) -> u32 {
        awaits_nothing(other.size).await
    }

    #[cfg_attr(feature = "traced", fdr::traced)]
    pub async fn async_consumes(mut self, other: Self) -> u32 {
        awaits_nothing(self.size).await
    }

    #[cfg_attr(feature = "traced", fdr::traced)]
    pub async fn async_needless_mut(&mut self) -> u32 {
        awaits_nothing(self.size).await
    }
}

#[derive(Copy, PartialEq, Eq)]
pub struct Canonical(u32);

impl Clone for Canonical {
    #[cfg_attr(feature = "traced", fdr::traced)]
    fn clone(&self) -> Self {
        *self
    }
}

impl PartialOrd for Canonical {
    #[cfg_attr(feature = "traced", fdr::traced)]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Canonical {
    #[cfg_attr(feature = "traced", fdr::traced)]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

#[derive(Copy, PartialEq, Eq)]
pub struct NotCanonical(u32);

impl Clone for NotCanonical {
    #[cfg_attr(feature = "traced", fdr::traced)]
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl PartialOrd for NotCanonical {
    #[cfg_attr(feature = "traced", fdr::traced)]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.0.cmp(&other.0))
    }
}

impl Ord for NotCanonical {
    #[cfg_attr(feature = "traced", fdr::traced)]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn many_calls(thing: &mut Thing, list: &Vec<u32>, count: u32, unused: u8) -> Result<u32, String> {
    const FIRST: u32 = 1;
    let first = must_use();
    let mut second = needless_return(FIRST);
    let mut third = 3;
    third = let_and_return(count);
    must_use();
    println!("{}", first);
    if count == 0 {
        panic!("none");
    }
    panics(None)?;
    panics(Some(count))?;
    let third = panics(Some(third))? as u8;
    panics(Some(list.len() as u32))?;
    match casts_and_shadows(1, &String::new()) {
        1 => (),
        _ => (),
    }
    const SECOND: u32 = 1;
    return Ok(second);
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn many_calls_and_no_result(list: &[Option<u32>]) {
    list.len();
    drop(list.first());
    items_in_front(1);
    items_behind(1);
    let _ = must_use();
    let _ = needless_return(1);
    recursion_only(dead(), dead());
    recursion_only(dead(), dead());
    recursion_only(dead(), list.iter().filter_map(|x| x.map(|x| x)).sum());
    recursion_only(dead(), dead())
    ;
}

pub trait Shape {
    #[cfg_attr(feature = "traced", fdr::traced)]
    fn area(&self, scale: u32) -> u32 {
        1
    }
}

impl Shape for Thing {
    #[cfg_attr(feature = "traced", fdr::traced)]
    fn area(&self, scale: u32) -> u32 {
        return self.size;
    }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn awaits_nothing(x: u32) -> u32 {
    let unused = 1;
    return x;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_unused(count: u32, mut total: u32, _kept: String, (left, right): (u8, u8)) -> u32 {
    const FIRST: u32 = 1;
    let first = 1;
    let mut second = 2;
    let _ = Rc::new(1);
    awaits_nothing(second).await;
    awaits_nothing(FIRST);
    const SECOND: u32 = 2;
    right.into()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_tail(x: u32) -> Result<u32, String> {
    let y = awaits_nothing(x).await;
    if y == 0 {
        return Err("zero".to_string());
    }
    let z = y as u8;
    return Ok(z.into());
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_let_and_return(x: u32) -> u32 {
    let y = awaits_nothing(x).await;
    y
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_unreachable(x: u32) -> u32 {
    awaits_nothing(x).await;
    return 1;
    awaits_nothing(x).await
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_diverges(x: u32) -> ! {
    loop {
        awaits_nothing(x).await;
    }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_panics(x: u32) {
    awaits_nothing(x).await;
    panic!("always");
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_never_ends(x: u32) -> u32 {
    loop {
        awaits_nothing(x).await;
    }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_assigned(mut x: u32, mut y: u32, mut z: String) -> u32 {
    awaits_nothing(x).await;
    x = 2;
    y += 1;
    z.push('x');
    let z = x;
    z
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_shadowed(x: u32) -> u32 {
    awaits_nothing(1).await;
    let x = 2;
    x
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_macro_alone(x: u32) -> u32 {
    println!("{x}");
    x
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn asyncCase(X: u32, ref y: u8) -> u32 {
    awaits_nothing(u32::from(*y)).await;
    X
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_private(x: Private) -> Private {
    awaits_nothing(x.0).await;
    x
}

struct Private(u32);

pub trait Later {
    fn later(&self) -> impl Future<Output = u32> + Send;
    fn other(&self) -> impl Future<Output = u32>;
}

impl Later for Thing {
    #[cfg_attr(feature = "traced", fdr::traced)]
    async fn later(&self) -> u32 {
        awaits_nothing(self.size).await
    }

    #[cfg_attr(feature = "traced", fdr::traced)]
    async fn other(&self) -> u32 {
        return awaits_nothing(self.size).await;
    }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_by_value(text: String, list: Vec<u32>) -> usize {
    awaits_nothing(1).await;
    text.len() + list.len()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_lock(shared: &Mutex<u32>) -> u32 {
    let held = shared.lock().unwrap();
    awaits_nothing(*held).await
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_block_in_it(x: u32) -> u32 {
    let later = async { awaits_nothing(x).await };
    later.await
}

#[cfg_attr(feature = "traced", fdr::traced)]
async fn async_never_called(_used: u32) -> u32 {
    awaits_nothing(_used).await
}
