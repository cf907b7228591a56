//! What a macro by example was given arrives in groups without delimiters: attributes, visibilities, types, patterns,
//! bodies, values of options.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;

macro_rules! function {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$life:lifetime, $bound:path>($pattern:pat => $type:ty) -> $result:ty $body:block) => {
        #[traced]
        $(#[$meta])*
        $vis fn $name<$life, T: $bound>($pattern: $type, _: &$life T) -> $result $body
    };
}

function! {
    /// Documented.
    #[must_use]
    #[inline(always)]
    pub(crate) fn sync<'a, ::std::fmt::Debug>((x, mut y) => (u8, String)) -> String {
        y.push(char::from(x));
        y
    }
}
function! { fn private<'a, Clone>(x => Option<u8>) -> Option<u8> { Some(x? + 1) } }

macro_rules! waits {
    ($vis:vis $name:ident, $pattern:pat, $type:ty, $result:ty, $value:expr, $body:block) => {
        #[traced(args, ret = ?)]
        $vis async fn $name($pattern: $type) -> $result {
            ::std::future::ready($value).await;
            $body
        }
    };
}

waits!(pub(crate) waiting, (x, y), (u8, String), usize, 1 + 2, { let z = usize::from(x); z + y.len() });
waits!(waiting_too, mut x, u8, (), { x += 1; x }, {});

macro_rules! diverges {
    ($vis:vis $name:ident, $never:ty, $body:block) => {
        #[traced]
        $vis fn $name() -> $never $body
    };
}

diverges!(pub(self) leaves, !, { ::std::process::exit(0) });

macro_rules! scope {
    ($vis:vis $type:ident, $trait:path, $value:ty, $body:block, $other:pat, $($item:item)*) => {
        #[traced(always)]
        impl $type {
            $vis fn own(&self) -> $value $body

            $($item)*
        }

        #[traced]
        impl $trait for $type {
            fn eq(&self, $other: &Self) -> bool $body
        }
    };
}

struct Thing(u8);
scope!(pub(crate) Thing, PartialEq<Thing>, bool, { loop { break true } }, _, fn given(&self) -> u8 { self.0 } const ONE: u8 = 1;);

macro_rules! module {
    ($vis:vis mod $name:ident { $($item:item)* }) => {
        #[traced(min_statements = 1)]
        $vis mod $name { $($item)* }
    };
}

module! {
    pub(crate) mod inner {
        use std::collections::BTreeMap;

        pub(crate) fn counts(words: &[&str]) -> usize {
            let mut counts = BTreeMap::new();
            for word in words {
                *counts.entry(*word).or_insert(0) += 1;
            }
            counts.len()
        }
    }
}

macro_rules! options {
    ($name:literal, $krate:path, $least:literal, $key:ident = $value:expr) => {
        #[traced(name = $name, crate = $krate, args($key = $value, ?x, text = %$value), err = ?)]
        fn with_options(x: u8) -> Result<u8, String> {
            Ok(x)
        }

        #[traced(min_statements = $least, crate = $krate)]
        mod with_a_rule {
            #[::fdr::traced]
            pub(crate) fn one(x: u8) -> u8 {
                x
            }
        }
    };
}

options!("a name", ::fdr, 3, key = 1 + 2);

macro_rules! meta {
    ($meta:meta, $other:meta) => {
        #[$meta]
        #[$other]
        fn by_meta() -> u8 {
            1
        }

        #[$meta]
        mod module_by_meta {
            #[$meta]
            pub(crate) fn inside() -> u8 {
                1
            }
        }
    };
}

meta!(fdr::traced, cfg(all()));

fn main() {
    assert_eq!(sync((65, String::new()), &1), "A");
    assert_eq!(private(Some(1), &1), Some(2));
    drop((waiting((1, String::new())), waiting_too(1)));
    assert!(Thing(1).own() && Thing(1) == Thing(2));
    assert_eq!(Thing(1).given(), Thing::ONE);
    assert_eq!(inner::counts(&["a", "b", "a"]), 2);
    assert_eq!(with_options(1), Ok(with_a_rule::one(1)));
    assert_eq!(by_meta(), module_by_meta::inside());
    leaves()
}
