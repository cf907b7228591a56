//! The macros of events, counters and spans. While a site is off, they are one load and one branch, and no argument is
//! evaluated. `off` has the same macros without the recorder.

/// Records an event: a name, and values.
///
/// The event is in the trace of the calling thread, inside of the calls that are open. Its name is
/// `my_app::module::name`, and the filters of `FDR` choose it as they choose functions. While it is off, no value is
/// evaluated.
///
/// | form | what is recorded |
/// | --- | --- |
/// | `key = value` | a number, a truth value, a character, a string, an address |
/// | `key = %value` | its text by `Display` |
/// | `key = ?value` | its text by `Debug` |
/// | `value`, `%value`, `?value` | a variable of that name |
///
/// A level may stand before the name: `trace`, `debug`, `info`, `warn`, `error`. There may be 32 fields; those behind
/// are left out. A text may have 1 KiB, and all of an event 2 KiB; the rest of a text is cut. Nothing is allocated.
/// Async-signal-safe, as far as code of the program that prints a value is.
///
/// # Examples
/// ```
/// let (id, path) = (7_u32, std::path::Path::new("/tmp"));
/// fdr::event!("accepted", id, bytes = 512, path = ?path);
/// fdr::event!(warn: "queue full", limit = 1 << 10, ratio = 0.5, %id);
/// ```
#[macro_export]
macro_rules! event {
    ($name:literal $($fields:tt)*) => {
        $crate::__fdr_event!(Instant NotKnown $name [$($fields)*])
    };
    (trace : $name:literal $($fields:tt)*) => {
        $crate::__fdr_event!(Instant Trace $name [$($fields)*])
    };
    (debug : $name:literal $($fields:tt)*) => {
        $crate::__fdr_event!(Instant Debug $name [$($fields)*])
    };
    (info : $name:literal $($fields:tt)*) => {
        $crate::__fdr_event!(Instant Info $name [$($fields)*])
    };
    (warn : $name:literal $($fields:tt)*) => {
        $crate::__fdr_event!(Instant Warn $name [$($fields)*])
    };
    (error : $name:literal $($fields:tt)*) => {
        $crate::__fdr_event!(Instant Error $name [$($fields)*])
    };
}

/// Records the value of a number that goes up and down. Its name is made as for an [`event!`](crate::event).
///
/// # Examples
/// ```
/// let queue = vec![1, 2, 3];
/// fdr::gauge!("queue", queue.len());
/// ```
#[macro_export]
macro_rules! gauge {
    ($name:literal, $value:expr $(,)?) => {
        match $crate::__fdr_event_site!($name event) {
            __fdr_gauge => {
                if $crate::private::is_on(__fdr_gauge) {
                    $crate::private::event(
                        __fdr_gauge,
                        $crate::private::Form::Counter,
                        $crate::private::Level::NotKnown,
                        &[(
                            $crate::private::core::option::Option::None,
                            $crate::private::Number::as_number(&$value),
                        )],
                    );
                }
            }
        }
    };
}

/// Begins a span, which ends when the value that it gives is dropped. A span is a call in all respects: reports and
/// flame graphs have it, with its times, and `FDR_KEEP` leaves out short spans that have no fields. Its name and its
/// fields are those of an [`event!`](crate::event).
///
/// A span belongs to its thread. So the value can't be sent to another one. Name it `_span`, because `_` would end it at
/// once.
///
/// # Examples
/// ```
/// fn load(path: &str) -> usize {
///     let _span = fdr::span!("parse", path);
///     path.len()
/// }
/// # load("x");
/// ```
#[macro_export]
macro_rules! span {
    ($name:literal $(,)?) => {
        $crate::private::enter($crate::__fdr_event_site!($name))
    };
    ($name:literal, $($fields:tt)+) => {
        match $crate::__fdr_event_site!($name) {
            __fdr_site => match $crate::private::enter(__fdr_site) {
                __fdr_span => {
                    if __fdr_span.is_recorded() {
                        $crate::private::event(
                            __fdr_site,
                            $crate::private::Form::Begin,
                            $crate::private::Level::NotKnown,
                            $crate::__fdr_fields!([] , $($fields)+),
                        );
                    }
                    __fdr_span
                }
            },
        }
    };
}

/// Makes a task of a future, such as an `async` block or a boxed future. Each poll of it is a call. Reports show how
/// long the task was polled, and how long it waited, as for a traced `async fn`. Its name is made as for an
/// [`event!`](crate::event).
///
/// # Examples
/// ```
/// # fn spawn<F: Future>(_: F) {}
/// let connection = 7;
/// spawn(fdr::task!("serve", async move {
///     std::future::ready(connection).await
/// }));
/// ```
#[macro_export]
macro_rules! task {
    ($name:literal, $future:expr $(,)?) => {
        $crate::private::task_of(
            $crate::private::task_sites!(
                $crate::private::core::file!(),
                $crate::private::core::line!(),
                named = $crate::private::core::concat!(
                    $crate::private::core::module_path!(),
                    "::",
                    $name
                )
            ),
            $future,
        )
    };
}

/// An event of that form, level, name and fields.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_event {
    ($form:ident $level:ident $name:literal [$($fields:tt)*]) => {
        match $crate::__fdr_event_site!($name event) {
            __fdr_event => {
                if $crate::private::is_on(__fdr_event) {
                    $crate::private::event(
                        __fdr_event,
                        $crate::private::Form::$form,
                        $crate::private::Level::$level,
                        $crate::__fdr_fields!([] $($fields)*),
                    );
                }
            }
        }
    };
}

/// A site named `module::NAME`. The word behind the name is a method of `CallSite`, such as `event`.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_event_site {
    ($name:literal $($what:ident)?) => {
        $crate::__fdr_static!(
            $crate::private::CallSite::new::<()>(
                $crate::private::core::file!(),
                $crate::private::core::line!()
            )
            .named(&$crate::private::core::concat!(
                $crate::private::core::module_path!(),
                "::",
                $name
            ))
            $(.$what())?
        )
    };
}

/// A site that is only a name, such as that of a field.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_name {
    ($name:expr) => {
        $crate::__fdr_static!(
            $crate::private::CallSite::new::<()>("", 0)
                .named(&$name)
                .only_name()
        )
    };
}

/// A static in the section of the sites.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_static {
    ($site:expr) => {{
        #[used]
        #[unsafe(link_section = "fdr_sites_12")]
        static SITE: $crate::private::CallSite = $site;
        &SITE
    }};
}

/// The fields of an event, as a list of names and values. In the brackets are those that are done.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_fields {
    ([$($done:tt)*] $(,)?) => {
        &[$($done)*]
    };
    ([$($done:tt)*] , $key:ident = % $value:expr $(, $($rest:tt)*)?) => {
        $crate::__fdr_fields!(
            [$($done)* $crate::__fdr_field!($key, $crate::private::Value::Display(&$value)),]
            $(, $($rest)*)?
        )
    };
    ([$($done:tt)*] , $key:ident = ? $value:expr $(, $($rest:tt)*)?) => {
        $crate::__fdr_fields!(
            [$($done)* $crate::__fdr_field!($key, $crate::private::Value::Debug(&$value)),]
            $(, $($rest)*)?
        )
    };
    ([$($done:tt)*] , $key:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__fdr_fields!(
            [$($done)* $crate::__fdr_field!($key, $crate::private::AsValue::as_value(&$value)),]
            $(, $($rest)*)?
        )
    };
    ([$($done:tt)*] , % $key:ident $(, $($rest:tt)*)?) => {
        $crate::__fdr_fields!([$($done)*] , $key = % $key $(, $($rest)*)?)
    };
    ([$($done:tt)*] , ? $key:ident $(, $($rest:tt)*)?) => {
        $crate::__fdr_fields!([$($done)*] , $key = ? $key $(, $($rest)*)?)
    };
    ([$($done:tt)*] , $key:ident $(, $($rest:tt)*)?) => {
        $crate::__fdr_fields!([$($done)*] , $key = $key $(, $($rest)*)?)
    };
}

/// The value of an argument or a result.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_value {
    (% $value:expr) => {
        $crate::private::Value::Display(&$value)
    };
    (? $value:expr) => {
        $crate::private::Value::Debug(&$value)
    };
    ($value:expr) => {
        $crate::private::AsValue::as_value(&$value)
    };
}

/// One field.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_field {
    ($key:ident, $value:expr) => {
        (
            $crate::private::core::option::Option::Some($crate::__fdr_name!(
                $crate::private::core::stringify!($key)
            )),
            $value,
        )
    };
}
