//! Tests of the names: by hand, from the compiler itself, and with nonsense.

use super::person_name;

#[track_caller]
fn check_name(path: &str, expected: &str) {
    assert_eq!(person_name(&format!("{path}::__FdrHere")), expected);
}

#[test]
fn paths_by_hand() {
    check_name("a::f", "a::f");
    check_name("a::m::T<_>::meth", "a::m::T::meth");
    check_name("a::m::T<'_, _, _>::meth", "a::m::T::meth");
    check_name("a::m::T<_, u8>::meth", "a::m::T<_, u8>::meth");
    check_name("a::m::T<'_, u8>::meth", "a::m::T<'_, u8>::meth");
    check_name(
        "<a::m::T<_> as a::m::Tr<u8>>::t",
        "<a::m::T as a::m::Tr<u8>>::t",
    );
    check_name(
        "<a::T<_> as a::Tr<alloc::vec::Vec<_>>>::t",
        "<a::T as a::Tr<alloc::vec::Vec>>::t",
    );
    check_name("a::other::<impl a::m::U>::o", "a::m::U::o");
    check_name("a::other::<impl a::m::U<_>>::o", "a::m::U::o");
    check_name(
        "a::other::<impl a::m::Tr<u16> for alloc::vec::Vec<u8>>::t::inner",
        "<alloc::vec::Vec<u8> as a::m::Tr<u16>>::t::inner",
    );
    check_name("a::m::Tr::default", "a::m::Tr::default");
    check_name("<[_] as a::Tr<_>>::t", "<[_] as a::Tr>::t");
    check_name(
        "a::<impl a::Tr for (u8, [i32; 4])>::t",
        "<(u8, [i32; 4]) as a::Tr>::t",
    );
    check_name("<fn(u8) -> u16 as a::Tr>::t", "<fn(u8) -> u16 as a::Tr>::t");
    check_name(
        "a::<impl a::Tr for fn(&'_ u8) -> &'_ u8>::t",
        "<fn(&u8) -> &u8 as a::Tr>::t",
    );
    check_name(
        "a::<impl a::Tr<dyn for<'a> Fn(&'a u8)> for a::T>::t",
        "<a::T as a::Tr<dyn for<'a> Fn(&'a u8)>>::t",
    );
    check_name(
        "a::<impl a::Tr for for<'a> fn(&'a u8)>::t",
        "<for<'a> fn(&'a u8) as a::Tr>::t",
    );
    check_name(
        "<&mut a::b::<impl a::T>::f::In as a::Tr>::t",
        "<&mut a::T::f::In as a::Tr>::t",
    );
    check_name(
        "<a::T as a::Tr<<u8 as a::X>::Y>>::t",
        "<a::T as a::Tr<<u8 as a::X>::Y>>::t",
    );
}

#[test]
fn segments_that_nobody_wrote_are_left_out() {
    check_name("a::f::{{closure}}", "a::f");
    check_name("a::f::{{closure}}::{{closure}}::g::{{closure}}", "a::f::g");
    check_name("a::_::f", "a::f");
    check_name("a::f::_::g::_::h", "a::f::g::h");
    check_name("a::f::{{constant}}::g", "a::f::g");
    check_name("{{closure}}::g", "g");
    check_name("<a::T as a::Tr>::m::{{closure}}", "<a::T as a::Tr>::m");
}

#[test]
fn constants_that_repeat_parameters_are_left_out() {
    check_name("a::Matrix<_, ROWS, COLUMNS>::mul", "a::Matrix::mul");
    check_name("a::Matrix<_, 3, 4>::mul", "a::Matrix<_, 3, 4>::mul");
    check_name("a::T<N>::f", "a::T::f");
    for value in [
        "u8", "i128", "f64", "usize", "bool", "char", "str", "true", "false", "7", "-7", "'x'",
    ] {
        check_name(&format!("a::T<{value}>::f"), &format!("a::T<{value}>::f"));
    }
}

#[test]
fn raw_identifiers_lose_their_mark() {
    check_name("a::r#loop", "a::loop");
    check_name(
        "a::r#type::r#Fn<a::r#mod::X>::r#match",
        "a::type::Fn<a::mod::X>::match",
    );
    check_name("<a::r#T as a::r#Tr>::r#dyn", "<a::T as a::Tr>::dyn");
}

#[test]
fn only_the_last_marker_is_removed() {
    assert_eq!(person_name("a::f"), "a::f");
    assert_eq!(person_name("a::__FdrHere::f::__FdrHere"), "a::__FdrHere::f");
    assert_eq!(person_name(""), "");
    assert_eq!(person_name("::__FdrHere"), "");
}

#[test]
fn nonsense_is_left_as_it_is() {
    for text in [
        "<", ">", "a::<b", "<a as", "a)b(", "<a)b", "'", "'\\", "a<b", "é::<日", "{{", "-> ->",
    ] {
        assert_eq!(person_name(text), text);
    }
}

#[test]
fn no_string_of_brackets_and_words_panics() {
    let pieces = [
        "<", ">", "(", ")", "{", "}", "'", "\\", "::", "_", " as ", " for ", "impl ", "é", "r#",
    ];
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..16 {
            // Knuth's MMIX generator: the same strings on every run.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
        }
        let name = person_name(&text);
        // At most `<`, ` as ` and `>` are added, and only in the place of ` for `.
        assert!(name.len() <= text.len(), "{text:?} {name:?}");
    }
}

#[test]
fn deep_and_long_texts_end_soon() {
    for (open, close) in [
        ("<", ">"),
        ("(", ")"),
        ("<impl a for ", ">"),
        ("<a as ", ">"),
        ("T<", ">"),
    ] {
        let deep = format!("{}x{}", open.repeat(20_000), close.repeat(20_000));
        assert!(person_name(&deep).contains('x'));
    }
    assert_eq!(person_name(&"<".repeat(100_000)).len(), 100_000);
    assert_eq!(person_name(&"T<_>".repeat(20_000)).len(), 20_000);
}

/// What the compiler prints here and now, for functions of every kind.
mod real {
    use std::marker::PhantomData;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::person_name;

    /// The name of the function that it stands in, without the module of these tests.
    macro_rules! here {
        () => {{
            struct __FdrHere;
            $crate::shell::names::tests::real::shortened(std::any::type_name::<__FdrHere>())
        }};
    }

    pub(super) fn shortened(path: &str) -> String {
        person_name(path).replace(concat!(module_path!(), "::"), "")
    }

    struct Plain;
    struct Generic<T>(T);
    struct Borrowed<'a, T>(PhantomData<&'a T>);
    struct Constant<const N: usize, const C: char>;

    trait Trait<X> {
        fn method(&self) -> String;
        fn provided(&self) -> String {
            here!()
        }
    }

    impl Plain {
        fn r#match(&self) -> String {
            here!()
        }
    }
    impl<T> Generic<T> {
        fn method(&self) -> String {
            here!()
        }
        fn in_closure(&self) -> String {
            let closure = || here!();
            closure()
        }
        fn in_closure_of_inner(&self) -> String {
            let closure = || {
                fn inner() -> String {
                    here!()
                }
                inner()
            };
            closure()
        }
        async fn in_future(&self) -> String {
            here!()
        }
    }
    impl Generic<u8> {
        fn of_u8(&self) -> String {
            here!()
        }
    }
    impl Generic<for<'a> fn(&'a u8) -> &'a u8> {
        fn of_fn(&self) -> String {
            here!()
        }
    }
    impl<T> Borrowed<'_, T> {
        fn method(&self) -> String {
            here!()
        }
    }
    impl<const N: usize, const C: char> Constant<N, C> {
        fn of_any(&self) -> String {
            here!()
        }
    }
    impl<const N: usize> Constant<N, '<'> {
        fn of_char(&self) -> String {
            here!()
        }
    }
    impl<T> Trait<u8> for Generic<T> {
        fn method(&self) -> String {
            here!()
        }
    }
    impl Trait<u8> for (u8, [i32; 4]) {
        fn method(&self) -> String {
            here!()
        }
    }
    const CONSTANT: fn() -> String = {
        fn inner() -> String {
            here!()
        }
        inner
    };

    mod elsewhere {
        use super::{Generic, Plain, Trait};

        impl Plain {
            pub(super) fn far(&self) -> String {
                here!()
            }
        }
        impl<T> Generic<T> {
            pub(super) fn far(&self) -> String {
                here!()
            }
        }
        impl Trait<u16> for Vec<u8> {
            fn method(&self) -> String {
                fn inner() -> String {
                    here!()
                }
                inner()
            }
        }
        impl Trait<u16> for fn(u8) -> u16 {
            fn method(&self) -> String {
                here!()
            }
        }
        impl Trait<fn(&u8)> for Plain {
            fn method(&self) -> String {
                struct Local;
                impl Trait<Local> for Local {
                    fn method(&self) -> String {
                        here!()
                    }
                }
                Local.method()
            }
        }
    }

    #[test]
    fn inherent_functions() {
        assert_eq!(Plain.r#match(), "Plain::match");
        assert_eq!(Generic(1).method(), "Generic::method");
        assert_eq!(Generic(1_u8).of_u8(), "Generic<u8>::of_u8");
        let identity: for<'a> fn(&'a u8) -> &'a u8 = |byte| byte;
        assert_eq!(Generic(identity).of_fn(), "Generic<fn(&u8) -> &u8>::of_fn");
        assert_eq!(Borrowed(PhantomData::<&u8>).method(), "Borrowed::method");
        assert_eq!(Constant::<2, 'x'>.of_any(), "Constant::of_any");
        assert_eq!(Constant::<2, '<'>.of_char(), "Constant<N, '<'>::of_char");
        assert_eq!(Plain.far(), "Plain::far");
        assert_eq!(Generic(1).far(), "Generic::far");
    }

    #[test]
    fn functions_of_traits() {
        assert_eq!(Generic(1).provided(), "Trait::provided");
        assert_eq!(
            Trait::<u8>::method(&Generic(1)),
            "<Generic as Trait<u8>>::method"
        );
        assert_eq!(
            (1, [1; 4]).method(),
            "<(u8, [i32; 4]) as Trait<u8>>::method"
        );
        let inner = Trait::<u16>::method(&vec![1_u8]);
        assert_eq!(inner, "<alloc::vec::Vec<u8> as Trait<u16>>::method::inner");
        let function: fn(u8) -> u16 = u16::from;
        assert_eq!(function.method(), "<fn(u8) -> u16 as Trait<u16>>::method");
        let of = "<Plain as Trait<fn(&u8)>>::method::Local";
        assert_eq!(Plain.method(), format!("<{of} as Trait<{of}>>::method"));
    }

    #[test]
    fn functions_in_closures_futures_and_constants() {
        assert_eq!(Generic(1).in_closure(), "Generic::in_closure");
        assert_eq!(
            Generic(1).in_closure_of_inner(),
            "Generic::in_closure_of_inner::inner"
        );
        assert_eq!(CONSTANT(), "CONSTANT::inner");
        let generic = Generic(1);
        let polled = pin!(generic.in_future()).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready("Generic::in_future".to_owned()));
    }
}
