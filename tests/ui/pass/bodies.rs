//! Bodies that begin with items, inner attributes, or what only looks like them.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;

#[traced]
fn items_first() -> usize {
    use std::collections::HashMap as Map;
    const LIMIT: usize = {
        let three = 3;
        three
    };
    static NAMES: [&str; LIMIT] = ["a", "b", "c"];
    type Names = Map<&'static str, usize>;
    macro_rules! count {
        ($x:expr) => {
            $x.len()
        };
    }
    enum Kind {
        One,
    }
    union Bits {
        _a: u8,
    }
    struct Inner(usize);
    impl Inner {
        fn get(&self) -> usize {
            self.0
        }
    }
    trait Local {
        fn local(&self) -> usize;
    }
    impl Local for Inner {
        fn local(&self) -> usize {
            self.get()
        }
    }
    fn size_of_union() -> usize {
        size_of::<Bits>()
    }
    mod nested {
        pub(super) const ONE: usize = 1;
    }
    #[cfg(any())]
    fn not_there() -> ThisTypeDoesNotExist {}
    let names: Names = NAMES.iter().map(|name| (*name, name.len())).collect();
    let Kind::One = Kind::One;
    count!(names) + Inner(1).local() + size_of_union() + nested::ONE
}

#[traced]
fn const_block_first() -> u32 {
    const { assert!(size_of::<u32>() == 4) }
    1
}

#[traced]
fn async_block_first() -> u32 {
    drop(async {});
    2
}

#[traced]
fn attribute_on_a_statement() -> u32 {
    #[allow(unused_mut)]
    let mut x = 3;
    x
}

#[traced]
fn inner_attributes_and_items() -> u32 {
    #![allow(dead_code)]
    #![expect(unused_variables)]
    //! Documentation, too.
    fn unused() {}
    let unused = 1;
    4
}

#[traced]
fn items_between_statements() -> u32 {
    let x = later();
    fn later() -> u32 {
        5
    }
    x
}

#[traced]
fn nothing_but_items() {
    #[expect(dead_code)]
    const X: u32 = 1;
}

#[traced]
async fn items_first_in_async(x: u32) -> u32 {
    #![allow(dead_code)]
    use std::future::ready;
    fn unused() {}
    ready(x).await
}

fn main() {
    assert_eq!(items_first(), 3 + 1 + 1 + 1);
    let sum = const_block_first() + async_block_first() + attribute_on_a_statement();
    assert_eq!(sum + inner_attributes_and_items() + items_between_statements(), 15);
    nothing_but_items();
    drop(items_first_in_async(1));
}
