//! Functions with wrong types. What the compiler says of them must be the same with the attribute
//! and without.

use std::collections::BTreeMap;

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn no_tail(x: u32) -> u32 {
    let _y = x;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn semicolon_too_many(x: u32) -> u32 {
    x + 1;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn empty() -> String {}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn only_items() -> u32 {
    const X: u32 = 1;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn wrong_tail(x: u32) -> String {
    x
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn wrong_return(x: u32) -> String {
    if x == 0 {
        return x;
    }
    String::new()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn unit_but_value(x: u32) {
    x
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn question_in_unit(x: &str) {
    let _: u32 = x.parse()?;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn question_of_wrong_error(x: &str) -> Result<u32, u8> {
    Ok(x.parse::<u32>()?)
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn cannot_infer() {
    let _list = Vec::new();
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn missing_else(x: u32) -> u32 {
    if x == 0 {
        1
    }
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn not_diverging() -> ! {
    println!("back");
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn missing_bound<T>(x: T) -> T {
    x + x
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn wrong_argument() -> u32 {
    wrong_tail("x").len()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn collects(x: &[u32]) -> BTreeMap<u32, u32> {
    x.iter().collect()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_unit(x: u32) {
    std::future::ready(x).await;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_without_await(x: u32) -> String {
    x
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub fn awaits_outside() {
    async_unit(1).await;
}
