//! The options: a name of one's own, `fdr` under another path, and records without times.
#![forbid(unsafe_code)]
#![deny(warnings)]

extern crate fdr as recorder;

mod framework {
    pub mod reexports {
        pub use fdr;
    }
}

#[recorder::traced(name = "parse (fast path)")]
fn named() {}

#[recorder::traced(crate = recorder)]
fn renamed() {}

#[framework::reexports::fdr::traced(crate = crate::framework::reexports::fdr, name = "both")]
fn through_another_crate() {}

#[recorder::traced(name = r#"raw "name""#, crate = ::fdr,)]
async fn all_forms() {
    std::future::ready(()).await;
}

#[recorder::traced()]
fn nothing_in_parentheses() {}

#[recorder::traced(untimed, crate = recorder)]
fn untimed() -> u32 {
    7
}

#[recorder::traced(name = "without times", untimed, crate = ::fdr)]
async fn untimed_polls() {
    std::future::ready(()).await;
}

#[recorder::traced(untimed)]
async fn untimed_call() {}

struct Leaf;

impl Leaf {
    #[recorder::traced(untimed)]
    fn method<T: Clone>(&self, value: &T) -> T {
        value.clone()
    }
}

macro_rules! make {
    ($name:ident, $text:literal, $path:path) => {
        #[recorder::traced(name = $text, crate = $path)]
        fn $name() {}
        #[recorder::traced(crate = $crate::framework::reexports::fdr)]
        async fn later() {
            std::future::ready(()).await;
        }
    };
}

make!(made, "made by a macro", ::fdr);

fn main() {
    named();
    renamed();
    through_another_crate();
    drop((all_forms(), later()));
    nothing_in_parentheses();
    assert_eq!(Leaf.method(&untimed()), 7);
    drop((untimed_polls(), untimed_call()));
    made();
}
