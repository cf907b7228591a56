//! Mistakes in the body are reported as without the attribute.
use fdr::traced;

#[traced]
fn no_tail(x: u32) -> u32 {
    let _y = x;
}

#[traced]
fn wrong_type(x: u32) -> String {
    x
}

#[traced]
async fn wrong_type_later(x: u32) -> String {
    std::future::ready(()).await;
    x
}

fn main() {}
