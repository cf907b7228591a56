//! What the borrow checker refuses in functions that wait. It must do so at the same places with the
//! attribute and without, and for the same reason.

use std::rc::Rc;

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn unit() {
    std::future::ready(()).await;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_use_after_move(text: String) -> usize {
    unit().await;
    drop(text);
    text.len()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_not_mutable(text: String) {
    unit().await;
    text.push('x');
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_returns_local() -> &'static str {
    unit().await;
    let text = String::new();
    &text
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_returns_parameter<'a>(text: String) -> &'a str {
    unit().await;
    &text
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_wrong_lifetime<'a, 'b>(x: &'a str, y: &'b str) -> &'a str {
    unit().await;
    if x.is_empty() { y } else { x }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_list_outlives_text(list: &mut Vec<&str>, text: &str) {
    unit().await;
    list.push(text);
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_boxed_text(text: &str) -> Result<(), Box<dyn std::fmt::Display>> {
    unit().await;
    Err(Box::new(text))
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_static_text(text: &str) {
    unit().await;
    let _kept: &'static str = text;
}

fn send<T: Send>(_: T) {}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_holds_rc() -> u32 {
    let held = Rc::new(1);
    unit().await;
    *held
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn async_not_send() {
    send(async_holds_rc());
}
