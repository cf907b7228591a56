//! Replaces the crate `fdr` in tests (`crate = crate::double`). It has all names that an expansion may use, with a
//! recorder that writes words into the list of `crate::log`. It must have no name that `fdr::private` lacks, because
//! then a wrong expansion would compile.

#[allow(
    dead_code,
    unused_imports,
    reason = "for clippy, an async function has no polls"
)]
pub(crate) mod private {
    use std::future::Future;
    use std::marker::PhantomData;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    pub(crate) use ::core;

    pub(crate) struct Site {
        pub(crate) name: &'static str,
        pub(crate) file: &'static str,
        pub(crate) line: u32,
        pub(crate) path: fn() -> &'static str,
        pub(crate) untimed: bool,
    }

    macro_rules! site {
        ($file:expr, $line:expr $(, auto)?) => {
            $crate::double::private::site!(@ "", $file, $line, false)
        };
        ($file:expr, $line:expr, named = $name:literal $(, auto)?) => {
            $crate::double::private::site!(@ $name, $file, $line, false)
        };
        ($file:expr, $line:expr, untimed $(, auto)?) => {
            $crate::double::private::site!(@ "", $file, $line, true)
        };
        ($file:expr, $line:expr, named = $name:literal, untimed $(, auto)?) => {
            $crate::double::private::site!(@ $name, $file, $line, true)
        };
        (@ $name:literal, $file:expr, $line:expr, $untimed:literal) => {{
            enum __FdrHere {}
            static SITE: $crate::double::private::Site = $crate::double::private::Site {
                name: $name,
                file: $file,
                line: $line,
                path: std::any::type_name::<__FdrHere>,
                untimed: $untimed,
            };
            &SITE
        }};
    }
    pub(crate) use site;

    /// Where the polls are those of a task, the sites of the task come with that of the function.
    pub(crate) use site as task_sites;

    impl Site {
        /// The last word of the function's path, or the name it was given.
        fn short(&self) -> String {
            let path = (self.path)().replace("::{{closure}}", "");
            let function = path.trim_end_matches("::__FdrHere");
            let last = function.rsplit("::").next().expect("a path").to_string();
            if self.name.is_empty() {
                last
            } else {
                self.name.to_string()
            }
        }
    }

    pub(crate) struct Guard(&'static Site, PhantomData<*const ()>);

    pub(crate) fn enter(site: &'static Site) -> Guard {
        assert!(!site.untimed, "it says that it has no times");
        begin(site)
    }

    pub(crate) fn enter_untimed(site: &'static Site) -> Guard {
        assert!(site.untimed, "it does not say that it has no times");
        crate::log("untimed");
        begin(site)
    }

    fn begin(site: &'static Site) -> Guard {
        crate::log(&format!("{} {{", site.short()));
        crate::SITES.with_borrow_mut(|sites| sites.push(site));
        Guard(site, PhantomData)
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            crate::log(&format!("}} {}", self.0.short()));
        }
    }

    pub(crate) struct Output<T>(PhantomData<fn() -> T>);

    impl<T> Output<T> {
        pub(crate) const NEW: Output<T> = Output(PhantomData);
    }

    impl<T> Clone for Output<T> {
        fn clone(&self) -> Output<T> {
            *self
        }
    }

    impl<T> Copy for Output<T> {}

    pub(crate) fn never<T>(_: Output<T>) -> T {
        unreachable!()
    }

    pub(crate) struct PolledFuture<F>(&'static Site, Pin<Box<F>>);

    pub(crate) fn polled<T, F: Future<Output = T>>(
        site: &'static Site,
        _: Output<T>,
        inner: F,
    ) -> impl Future<Output = T> {
        PolledFuture(site, Box::pin(inner))
    }

    pub(crate) fn task_of<F: Future>(site: &'static Site, inner: F) -> PolledFuture<F> {
        PolledFuture(site, Box::pin(inner))
    }

    pub(crate) fn polled_untimed<T, F: Future<Output = T>>(
        site: &'static Site,
        _: Output<T>,
        inner: F,
    ) -> impl Future<Output = T> {
        assert!(site.untimed, "it does not say that it has no times");
        PolledFuture(site, Box::pin(inner))
    }

    impl<F: Future> Future for PolledFuture<F> {
        type Output = F::Output;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            let _guard = match self.0.untimed {
                false => enter(self.0),
                true => enter_untimed(self.0),
            };
            self.1.as_mut().poll(context)
        }
    }
}
