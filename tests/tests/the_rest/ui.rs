//! What `#[traced]` accepts and what it refuses, and in which words. One story per file; a refusal's
//! words are in the `.stderr` beside it, and are made anew with `TRYBUILD=overwrite`. Nothing here
//! looks at what is recorded.

#[test]
fn accepts() {
    trybuild::TestCases::new().pass("ui/pass/*.rs");
}

#[test]
fn refuses() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}
