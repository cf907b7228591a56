//! The parts that the four locks share: a type with a value around the lock of `lock_api`, with all the methods of
//! `parking_lot`. The type is our own because of its constructors: `new` has to know where it was called, and
//! `named` is new. `Deref` would not give paths such as `Mutex::lock`, nor methods of an `Arc`. So the methods are
//! listed again.

/// `$Lock` is `lock_api`'s `$Inner`, of a `$Raw`, and of `$with`. The function `$const_new` makes one.
macro_rules! lock {
    (
        $(#[$doc:meta])*
        $Lock:ident, $const_new:ident = $Inner:ident<$Raw:ident $(, $With:ty)?> $(, $with:expr)?
    ) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $Lock<T: ?Sized>($crate::lock_api::$Inner<$Raw, $($With,)? T>);

        fdr::sync::raw::lock_constructors!($Lock: 0);

        #[doc = concat!("As [`", stringify!($Lock), "::new`].")]
        #[track_caller]
        pub const fn $const_new<T>(value: T) -> $Lock<T> {
            $Lock::new(value)
        }

        impl<T> $Lock<T> {
            #[inline]
            const fn with_origin(origin: fdr::sync::raw::Origin, value: T) -> $Lock<T> {
                let raw = $Raw::new(origin, core::any::type_name::<$Lock<T>>);
                $Lock($crate::lock_api::$Inner::from_raw(raw, $($with,)? value))
            }

            /// The value, without a lock, because no other thread has it.
            #[inline]
            pub fn into_inner(self) -> T {
                self.0.into_inner()
            }
        }

        impl<T: ?Sized> $Lock<T> {
            /// The value, without a lock, because no other thread has it.
            #[inline]
            pub fn get_mut(&mut self) -> &mut T {
                self.0.get_mut()
            }

            /// Whether a thread holds the lock.
            #[inline]
            pub fn is_locked(&self) -> bool {
                self.0.is_locked()
            }

            /// This lock as the lock of `lock_api`, which has the methods for locks in an [`Arc`](std::sync::Arc).
            #[cfg(feature = "arc_lock")]
            fn of_lock_api(
                self: &std::sync::Arc<Self>,
            ) -> std::sync::Arc<$crate::lock_api::$Inner<$Raw, $($With,)? T>> {
                let this = std::sync::Arc::into_raw(std::sync::Arc::clone(self));
                // SAFETY: the type is transparent, so both have one layout, and the count is that of the clone.
                unsafe { std::sync::Arc::from_raw(this as *const $crate::lock_api::$Inner<$Raw, $($With,)? T>) }
            }
        }

        impl<T: ?Sized> core::ops::Deref for $Lock<T> {
            type Target = $crate::lock_api::$Inner<$Raw, $($With,)? T>;

            #[inline]
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        #[cfg(feature = "serde")]
        impl<T: ?Sized + serde::Serialize> serde::Serialize for $Lock<T> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de, T: serde::Deserialize<'de>> serde::Deserialize<'de> for $Lock<T> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                T::deserialize(deserializer).map($Lock::new)
            }
        }
    };
}

/// Methods that return a guard, as those of `lock_api` with the same names: one that waits, and others that return
/// an option. Each has a variant for a lock in an [`Arc`](std::sync::Arc). The guard of this variant keeps the lock
/// alive.
macro_rules! methods {
    (
        $Lock:ident: $Guard:ty, $ArcGuard:ty:
        $(#[$lock_doc:meta])* $lock:ident, $lock_arc:ident;
        $($(#[$doc:meta])* $name:ident, $arc:ident $(, $time:ident: $Time:ty)?;)+
    ) => {
        impl<T: ?Sized> $Lock<T> {
            $(#[$lock_doc])*
            #[inline]
            pub fn $lock(&self) -> $Guard {
                self.0.$lock()
            }

            $(#[$lock_doc])*
            #[cfg(feature = "arc_lock")]
            #[inline]
            pub fn $lock_arc(self: &std::sync::Arc<Self>) -> $ArcGuard {
                self.of_lock_api().$lock_arc()
            }

            $(
                $(#[$doc])*
                #[inline]
                pub fn $name(&self $(, $time: $Time)?) -> Option<$Guard> {
                    self.0.$name($($time)?)
                }

                $(#[$doc])*
                #[cfg(feature = "arc_lock")]
                #[inline]
                pub fn $arc(self: &std::sync::Arc<Self> $(, $time: $Time)?) -> Option<$ArcGuard> {
                    self.of_lock_api().$arc($($time)?)
                }
            )+
        }
    };
}

pub(crate) use {lock, methods};
