//! What the types around locks and conditions have in common: those of `std::sync` here, and those of the crate
//! `fdr-parking-lot`.

/// The constructors of locks, and how a lock is shown. Each needs a function `with_origin`, and a field with the lock
/// of the other library.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_lock_constructors {
    ($Lock:ident: $inner:tt) => {
        impl<T> $Lock<T> {
            /// A new lock. Its name is its type, and the place of this call.
            #[inline]
            #[track_caller]
            pub const fn new(value: T) -> $Lock<T> {
                $Lock::with_origin($crate::sync::raw::Origin::here(), value)
            }

            /// A new lock with that name.
            #[inline]
            pub const fn named(name: &'static str, value: T) -> $Lock<T> {
                $Lock::with_origin($crate::sync::raw::Origin::named(name), value)
            }
        }

        impl<T: Default> Default for $Lock<T> {
            #[track_caller]
            fn default() -> $Lock<T> {
                $Lock::new(T::default())
            }
        }

        impl<T> From<T> for $Lock<T> {
            #[track_caller]
            fn from(value: T) -> $Lock<T> {
                $Lock::new(value)
            }
        }

        impl<T: ?Sized + ::core::fmt::Debug> ::core::fmt::Debug for $Lock<T> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                self.$inner.fmt(f)
            }
        }
    };
}

/// The constructors of a condition around `$Inner`, and how it is shown.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_condition_constructors {
    ($Condvar:ident: $Inner:ty) => {
        impl $Condvar {
            /// A new condition. Its name is the place of this call.
            #[inline]
            #[track_caller]
            #[must_use]
            pub const fn new() -> $Condvar {
                $Condvar::with_origin($crate::sync::raw::Origin::here())
            }

            /// A new condition with that name.
            #[inline]
            #[must_use]
            pub const fn named(name: &'static str) -> $Condvar {
                $Condvar::with_origin($crate::sync::raw::Origin::named(name))
            }

            #[inline]
            const fn with_origin(origin: $crate::sync::raw::Origin) -> $Condvar {
                $Condvar {
                    condition: $crate::sync::raw::Condition::new(origin),
                    inner: <$Inner>::new(),
                }
            }
        }

        impl Default for $Condvar {
            #[track_caller]
            fn default() -> $Condvar {
                $Condvar::new()
            }
        }

        impl ::core::fmt::Debug for $Condvar {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
}

/// A lock of the standard library: its value and its poison.
macro_rules! lock_of_std {
    ($Lock:ident) => {
        __fdr_lock_constructors!($Lock: inner);

        impl<T> $Lock<T> {
            #[doc = concat!("The value, as [`std::sync::", stringify!($Lock), "::into_inner`].")]
            ///
            /// # Errors
            /// If the lock is poisoned.
            pub fn into_inner(self) -> LockResult<T> {
                self.inner.into_inner()
            }
        }

        impl<T: ?Sized> $Lock<T> {
            /// Whether a thread panicked while it could change the value.
            #[inline]
            pub fn is_poisoned(&self) -> bool {
                self.inner.is_poisoned()
            }

            /// From now on the lock is not poisoned.
            #[inline]
            pub fn clear_poison(&self) {
                self.inner.clear_poison();
            }

            /// The value, without a lock, because no other thread has it.
            ///
            /// # Errors
            /// If the lock is poisoned.
            #[inline]
            pub fn get_mut(&mut self) -> LockResult<&mut T> {
                self.inner.get_mut()
            }
        }
    };
}

/// A guard of such a lock. `mut`: the thread has the lock alone.
macro_rules! guard_of_std {
    ($Guard:ident) => {
        impl<T: ?Sized> core::ops::Deref for $Guard<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                &self.inner
            }
        }

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $Guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $Guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
    (mut $Guard:ident) => {
        guard_of_std!($Guard);

        impl<T: ?Sized> core::ops::DerefMut for $Guard<'_, T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                &mut self.inner
            }
        }
    };
}
