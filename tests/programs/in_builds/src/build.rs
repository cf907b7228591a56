//! Calls a traced function.

#[fdr::traced(always)]
fn sum_below(end: u64) -> u64 {
    (0..end).sum()
}

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    println!("cargo::rustc-env=SUM={}", sum_below(20));
}
