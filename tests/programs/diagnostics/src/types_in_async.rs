//! Wrong types in functions that wait. What the compiler says of them must be at the same places with
//! the attribute and without, and of the same kind.

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_unit(x: u32) {
    std::future::ready(x).await;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_wrong_tail(x: u32) -> String {
    async_unit(x).await;
    x
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_wrong_return(x: u32) -> String {
    if x == 0 {
        return x;
    }
    async_unit(x).await;
    String::new()
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_no_tail(x: u32) -> u32 {
    async_unit(x).await;
}

#[cfg_attr(feature = "traced", fdr::traced)]
pub async fn async_question_in_unit(x: &str) {
    let y: u32 = x.parse()?;
    async_unit(y).await;
}
