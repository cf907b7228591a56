//! A macro that calls a traced function.

/// A sum as text.
#[proc_macro]
pub fn sum(_: proc_macro::TokenStream) -> proc_macro::TokenStream {
    format!("\"{}\"", gated::sum_below(20)).parse().expect("a text")
}
