//! Mistakes with borrows are reported as without the attribute.
use fdr::traced;

#[traced]
fn use_after_move(text: String) -> usize {
    drop(text);
    text.len()
}

#[traced]
async fn returns_parameter<'a>(text: String) -> &'a str {
    std::future::ready(()).await;
    &text
}

fn main() {}
