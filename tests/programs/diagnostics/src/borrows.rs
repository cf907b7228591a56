//! Functions that the borrow checker refuses. What it says must be the same with the attribute and
//! without.

use std::rc::Rc;
use std::thread;

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn use_after_move(text: String) -> usize {
    drop(text);
    text.len()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn twice_mutable(list: &mut Vec<u32>) {
    let first = &mut list[0];
    list.push(1);
    *first = 2;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn returns_local() -> &'static str {
    let text = String::new();
    &text
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn returns_parameter<'a>(text: String) -> &'a str {
    text.as_str()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn not_mutable(text: String) {
    text.push('x');
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn wrong_lifetime<'a, 'b>(x: &'a str, y: &'b str) -> &'a str {
    if x.is_empty() { y } else { x }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn not_send(x: Rc<u32>) {
    let x = &x;
    thread::spawn(move || x.count_ones());
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn uninitialised(x: bool) -> u32 {
    let y;
    if x {
        y = 1;
    }
    y
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn tail_outlives() -> usize {
    let cell = std::cell::RefCell::new(vec![1]);
    let held = cell.borrow_mut();
    drop(cell);
    held.len()
}
