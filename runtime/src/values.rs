//! The types that a field, an argument or the value of a counter may have. They are the same on each system, so a
//! program that compiles on one system compiles on another.

use core::fmt;
use core::num::NonZero;
use core::ops::Deref;
use core::ptr::NonNull;

/// The value of a field, borrowed from the program.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Truth(bool),
    /// An address.
    Address(u64),
    /// Text.
    Text(&'a str),
    /// Text that the value prints.
    Display(&'a dyn fmt::Display),
    /// The same, for programmers.
    Debug(&'a dyn fmt::Debug),
}

/// A value that a field may have without `%` or `?`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of a field",
    label = "numbers, truth values, characters and strings are",
    note = "write `%value` for its text by `Display`, or `?value` for that by `Debug`"
)]
pub trait AsValue {
    /// The value.
    fn as_value(&self) -> Value<'_>;
}

macro_rules! as_value {
    ($($type:ty: |$value:ident| $as:expr;)+) => {
        $(impl AsValue for $type {
            #[inline]
            fn as_value(&self) -> Value<'_> {
                let $value = self;
                $as
            }
        })+
    };
}

/// A value that `#[traced(args)]` records of a parameter that is not named: a number, a truth value, a character or a
/// pointer, but no text, because a text may be a secret.
pub trait Scalar: AsValue {}

/// The value of a parameter, if its type is a `Scalar`. For any other type, `value` is that of `NoValue`.
pub struct ValueOf<'a, T: ?Sized>(pub &'a T);

/// A value of a type without a recorded value.
pub struct NoValue;

impl<'a, T: Scalar + ?Sized> ValueOf<'a, T> {
    /// The value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Option<Value<'a>> {
        Some(self.0.as_value())
    }
}

impl NoValue {
    /// There is none.
    #[inline]
    #[must_use]
    pub fn value<'a>(&self) -> Option<Value<'a>> {
        None
    }
}

impl<T: ?Sized> Deref for ValueOf<'_, T> {
    type Target = NoValue;

    #[inline]
    fn deref(&self) -> &NoValue {
        &NoValue
    }
}

macro_rules! scalar {
    ($($type:ty)+) => {
        $(impl Scalar for $type {})+
    };
}

scalar! {
    u8 u16 u32 u64 usize u128 i8 i16 i32 i64 isize i128 f32 f64 bool char
    NonZero<u8> NonZero<u16> NonZero<u32> NonZero<u64> NonZero<usize>
    NonZero<i8> NonZero<i16> NonZero<i32> NonZero<i64> NonZero<isize>
}

impl<T: Scalar + ?Sized> Scalar for &T {}
impl<T: Scalar + ?Sized> Scalar for &mut T {}
/// What the value of a counter may be.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of a gauge",
    label = "numbers are",
    note = "`fdr::event!` takes other values as fields"
)]
pub trait Number: AsValue {
    /// The value.
    #[inline]
    fn as_number(&self) -> Value<'_> {
        self.as_value()
    }
}

macro_rules! number {
    ($($type:ty)+) => {
        $(impl Number for $type {})+
    };
}

number! {
    u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 bool
    NonZero<u8> NonZero<u16> NonZero<u32> NonZero<u64> NonZero<usize>
    NonZero<i8> NonZero<i16> NonZero<i32> NonZero<i64> NonZero<isize>
}

impl<T: Number + ?Sized> Number for &T {}
impl<T: Number + ?Sized> Number for &mut T {}

impl<T: ?Sized> Scalar for *const T {}
impl<T: ?Sized> Scalar for *mut T {}
impl<T: ?Sized> Scalar for NonNull<T> {}

as_value! {
    NonZero<u8>: |value| Value::Unsigned(u64::from(value.get()));
    NonZero<u16>: |value| Value::Unsigned(u64::from(value.get()));
    NonZero<u32>: |value| Value::Unsigned(u64::from(value.get()));
    NonZero<u64>: |value| Value::Unsigned(value.get());
    NonZero<usize>: |value| Value::Unsigned(value.get() as u64);
    NonZero<i8>: |value| Value::Signed(i64::from(value.get()));
    NonZero<i16>: |value| Value::Signed(i64::from(value.get()));
    NonZero<i32>: |value| Value::Signed(i64::from(value.get()));
    NonZero<i64>: |value| Value::Signed(value.get());
    NonZero<isize>: |value| Value::Signed(value.get() as i64);
    u8: |value| Value::Unsigned(u64::from(*value));
    u16: |value| Value::Unsigned(u64::from(*value));
    u32: |value| Value::Unsigned(u64::from(*value));
    u64: |value| Value::Unsigned(*value);
    usize: |value| Value::Unsigned(*value as u64);
    u128: |value| Value::Display(value);
    i8: |value| Value::Signed(i64::from(*value));
    i16: |value| Value::Signed(i64::from(*value));
    i32: |value| Value::Signed(i64::from(*value));
    i64: |value| Value::Signed(*value);
    isize: |value| Value::Signed(*value as i64);
    i128: |value| Value::Display(value);
    f32: |value| Value::Float(f64::from(*value));
    f64: |value| Value::Float(*value);
    bool: |value| Value::Truth(*value);
    char: |value| Value::Display(value);
    str: |value| Value::Text(value);
    fmt::Arguments<'_>: |value| Value::Display(value);
}

impl<T: AsValue + ?Sized> AsValue for &T {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

impl<T: AsValue + ?Sized> AsValue for &mut T {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        (**self).as_value()
    }
}

/// Values on the heap. A target without std may have none.
#[cfg(not(target_os = "none"))]
mod on_heap {
    use super::{AsValue, Number, Value};

    impl<T: Number + ?Sized> Number for Box<T> {}

    as_value! {
        String: |value| Value::Text(value);
    }

    impl<T: AsValue + ?Sized> AsValue for Box<T> {
        #[inline]
        fn as_value(&self) -> Value<'_> {
            (**self).as_value()
        }
    }
}

impl<T: ?Sized> AsValue for *const T {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::Address(self.cast::<()>().addr() as u64)
    }
}

impl<T: ?Sized> AsValue for *mut T {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::Address(self.cast::<()>().addr() as u64)
    }
}

impl<T: ?Sized> AsValue for NonNull<T> {
    #[inline]
    fn as_value(&self) -> Value<'_> {
        Value::Address(self.cast::<()>().as_ptr().addr() as u64)
    }
}
