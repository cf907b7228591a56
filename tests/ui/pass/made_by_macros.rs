//! Functions that come out of macros, whole or in pieces.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;

macro_rules! pieces {
    ($(#[$attribute:meta])* $vis:vis $name:ident($argument:ident: $type:ty) -> $result:ty $body:block) => {
        #[traced]
        $(#[$attribute])*
        $vis fn $name($argument: $type) -> $result $body
    };
}

pieces! { pub(crate) public(x: u32) -> u32 { x + 1 } }
pieces! { #[must_use] private(x: &str) -> Option<&str> { let y = x.get(1..)?; Some(y) } }

macro_rules! item {
    ($item:item) => {
        #[traced]
        $item
    };
}

item! { fn whole(x: u32) -> u32 { x + 2 } }
item! { pub(crate) async fn later(x: String) -> usize { std::future::ready(()).await; x.len() } }

macro_rules! tokens {
    ($($token:tt)*) => {
        #[traced]
        $($token)*
    };
}

tokens! { fn token_by_token<T>(x: T) -> T { x } }

macro_rules! expression {
    ($name:ident, $body:expr) => {
        #[traced]
        fn $name() -> u32 {
            let one = 1;
            $body + one
        }
    };
}

expression!(computed, 2 * 3);

macro_rules! methods {
    ($type:ident, $($name:ident),*) => {
        impl $type {
            $(
                #[traced]
                fn $name(&self) -> u32 {
                    self.0
                }
            )*
        }
    };
}

struct Thing(u32);
methods!(Thing, first, second);

macro_rules! in_body {
    () => {
        #[traced]
        fn inside() -> u32 {
            5
        }
    };
}

#[traced]
fn calls_macros() -> u32 {
    in_body!();
    let list = vec![inside()];
    list[0]
}

macro_rules! waits {
    () => {
        ::std::future::ready(7).await
    };
}

macro_rules! calls_a_path {
    ($path:path) => {
        #[traced]
        async fn by_path() -> u32 {
            $path!()
        }
    };
}
calls_a_path!(waits);

macro_rules! returns {
    ($name:ident, $type:ty) => {
        #[traced]
        async fn $name() -> $type {
            ::std::future::pending::<()>().await;
            panic!("never")
        }
    };
}
returns!(never, !);

fn needs_send<T: Send>(_: T) {}

fn main() {
    needs_send(by_path());
    drop(never());
    assert_eq!((public(1), private("ab"), whole(1)), (2, Some("b"), 3));
    drop(later(String::new()));
    assert_eq!(token_by_token(1), 1);
    assert_eq!(computed(), 7);
    let thing = Thing(1);
    assert_eq!(thing.first() + thing.second(), 2);
    assert_eq!(calls_macros(), 5);
}
