//! A macro that calls a traced function.

#[fdr::traced(always)]
fn sum_below(end: u64) -> u64 {
    (0..end).sum()
}

/// A sum as text.
#[proc_macro]
pub fn sum(_: proc_macro::TokenStream) -> proc_macro::TokenStream {
    format!("\"{}\"", sum_below(20)).parse().expect("a text")
}
