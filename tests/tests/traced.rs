//! Which edges a traced function records, and when: on every way out, around every poll, and in what
//! order beside the drops of its variables. The recorder is a double that logs into a thread's
//! list, so that nothing here depends on clocks, files or other threads.

#[path = "../programs/double.rs"]
mod double;
#[path = "traced/scopes.rs"]
mod scopes;

use std::cell::RefCell;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use fdr::traced;

thread_local! {
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static SITES: RefCell<Vec<&'static double::private::Site>> = const { RefCell::new(Vec::new()) };
}

fn log(text: &str) {
    LOG.with_borrow_mut(|log| log.push(text.to_string()));
}

/// What is logged while `work` runs, in one line.
fn logged(work: impl FnOnce()) -> String {
    LOG.take();
    work();
    LOG.take().join(" ")
}

/// Logs its name when it is dropped.
struct Loud(&'static str);

impl Drop for Loud {
    fn drop(&mut self) {
        log(self.0);
    }
}

/// Pending the first `n` times that it is polled.
struct Pending(u32);

impl Future for Pending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        Poll::Pending
    }
}

/// Polls until it is finished; returns the result and the number of polls.
fn finish<T>(future: impl Future<Output = T>) -> (T, u32) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = 0;
    loop {
        polls += 1;
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return (result, polls);
        }
    }
}

/// A panic without its message on the terminal.
fn panics<T>(work: impl FnOnce() -> T) -> bool {
    panic::catch_unwind(AssertUnwindSafe(work)).is_err()
}

#[traced(crate = crate::double)]
fn leaf() {
    log("leaf");
}

#[traced(untimed, crate = crate::double)]
fn hot_leaf() {
    log("leaf");
}

#[traced(untimed, crate = crate::double)]
async fn hot_polls() {
    Pending(1).await;
}

#[test]
fn untimed_functions_are_recorded_alike_by_other_means() {
    assert_eq!(logged(hot_leaf), "untimed hot_leaf { leaf } hot_leaf");
    let poll = "untimed hot_polls { } hot_polls";
    let polls = logged(|| assert_eq!(finish(hot_polls()).1, 2));
    assert_eq!(polls, format!("{poll} {poll}"));
}

#[test]
fn entry_and_exit_surround_the_body() {
    #[traced(crate = crate::double)]
    fn outer(depth: u32) {
        leaf();
        if depth > 0 {
            outer(depth - 1);
        }
    }
    assert_eq!(
        logged(|| outer(1)),
        "outer { leaf { leaf } leaf outer { leaf { leaf } leaf } outer } outer"
    );
}

#[test]
fn early_ways_out() {
    #[traced(crate = crate::double)]
    fn out(way: u32) -> Result<u32, std::num::ParseIntError> {
        let labelled = 'block: {
            if way == 0 {
                return Ok(0);
            }
            loop {
                if way == 1 {
                    break 'block 1;
                }
                "no number".parse::<u32>()?;
            }
        };
        log("end");
        Ok(labelled)
    }
    assert_eq!(logged(|| assert_eq!(out(0), Ok(0))), "out { } out");
    assert_eq!(logged(|| assert_eq!(out(1), Ok(1))), "out { end } out");
    assert_eq!(logged(|| assert!(out(2).is_err())), "out { } out");
}

#[test]
fn unwinding_records_every_exit() {
    #[traced(crate = crate::double)]
    fn panicking() -> ! {
        let _loud = Loud("variable");
        panic::resume_unwind(Box::new(()));
    }
    #[traced(crate = crate::double)]
    fn caller() {
        panicking();
    }
    let expected = "caller { panicking { variable } panicking } caller";
    assert_eq!(logged(|| assert!(panics(caller))), expected);
}

#[test]
fn exit_comes_after_variables_and_before_parameters() {
    #[traced(crate = crate::double)]
    fn drops(_parameter: Loud) -> usize {
        let _first = Loud("first");
        let _second = Loud("second");
        Loud("temporary").0.len()
    }
    let text = logged(|| assert_eq!(drops(Loud("parameter")), 9));
    assert_eq!(text, "drops { temporary second first } drops parameter");
}

#[test]
fn methods_and_closures() {
    struct Thing;
    trait Act {
        #[traced(crate = crate::double)]
        fn by_default(&self) {
            log("default");
        }
        fn act(&mut self);
    }
    impl Act for Thing {
        #[traced(crate = crate::double)]
        fn act(&mut self) {
            let closure = |leave: bool| {
                if leave {
                    return;
                }
                log("closure");
            };
            closure(true);
            closure(false);
            self.by_default();
        }
    }
    let object: &mut dyn Act = &mut Thing;
    let expected = "act { closure by_default { default } by_default } act";
    assert_eq!(logged(|| object.act()), expected);
}

#[test]
fn instances_of_a_generic_function_share_a_site() {
    #[traced(crate = crate::double)]
    fn generic<T>(_: T) {}
    SITES.take();
    generic(1);
    generic("x");
    let sites = SITES.take();
    assert!(std::ptr::eq(sites[0], sites[1]));
}

#[test]
fn a_site_says_where_the_function_is() {
    #[traced(crate = crate::double)]
    #[inline]
    fn placed() {}
    const LINE: u32 = line!() - 1;
    #[traced(name = "given name", crate = crate::double)]
    fn named() {}
    SITES.take();
    placed();
    assert_eq!(logged(named), "given name { } given name");
    let sites = SITES.take();
    assert_eq!((sites[0].file, sites[0].line), (file!(), LINE));
    let path = (sites[0].path)();
    let module = module_path!();
    assert_eq!(
        path,
        format!("{module}::a_site_says_where_the_function_is::placed::__FdrHere")
    );
    assert_eq!((sites[0].name, sites[1].name), ("", "given name"));
}

#[test]
fn every_poll_is_an_entry_and_an_exit() {
    #[traced(crate = crate::double)]
    async fn inner(pending: u32) -> u32 {
        Pending(pending).await;
        pending
    }
    #[traced(crate = crate::double)]
    async fn outer() -> u32 {
        log("start");
        let sum = inner(1).await + inner(0).await;
        log("end");
        sum
    }
    // Nothing before the first poll.
    assert_eq!(logged(|| drop(outer())), "");
    let text = logged(|| assert_eq!(finish(outer()), (1, 2)));
    let expected = "outer { start inner { } inner } outer \
                    outer { inner { } inner inner { } inner end } outer";
    assert_eq!(text, expected);
}

#[test]
fn a_future_that_is_given_back_is_polled() {
    #[traced(crate = crate::double)]
    fn given() -> impl Future<Output = u32> {
        log("made");
        async move {
            Pending(1).await;
            1
        }
    }
    let text = logged(|| assert_eq!(finish(given()), (1, 2)));
    assert_eq!(text, "made given { } given given { } given");
}

#[test]
fn ways_out_of_a_future() {
    #[traced(crate = crate::double)]
    async fn out(way: u32) -> Option<u32> {
        Pending(0).await;
        if way == 0 {
            return Some(0);
        }
        if way == 1 {
            None?;
        }
        panic::resume_unwind(Box::new(()));
    }
    assert_eq!(
        logged(|| assert_eq!(finish(out(0)).0, Some(0))),
        "out { } out"
    );
    assert_eq!(logged(|| assert_eq!(finish(out(1)).0, None)), "out { } out");
    assert_eq!(logged(|| assert!(panics(|| finish(out(2))))), "out { } out");
}

#[test]
fn a_body_that_cannot_wait_is_one_poll() {
    #[traced(crate = crate::double)]
    async fn direct(x: u32) -> u32 {
        log("body");
        x
    }
    assert_eq!(
        logged(|| assert_eq!(finish(direct(3)), (3, 1))),
        "direct { body } direct"
    );
}

#[test]
fn a_future_dropped_halfway_leaves_no_edge_open() {
    #[traced(crate = crate::double)]
    async fn halfway(_kept: Loud) {
        let _variable = Loud("variable");
        Pending(9).await;
    }
    let text = logged(|| {
        let mut future = Box::pin(halfway(Loud("parameter")));
        assert!(
            future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
    });
    assert_eq!(text, "halfway { } halfway variable parameter");
}

/// The function twice, with the attribute and without.
macro_rules! twins {
    ($traced:ident, $plain:ident, ($($parameters:tt)*) $body:block) => {
        #[traced(crate = crate::double)]
        async fn $traced($($parameters)*) $body
        async fn $plain($($parameters)*) $body
    };
}

struct Three {
    a: Loud,
    b: Loud,
    c: Loud,
}

twins!(two_traced, two_plain, (first: Loud, mut second: Loud, third: Loud) {
    // Named in another order than that of the parameters, and one of them moved.
    let _in_body = (third.0, first.0);
    Pending(1).await;
    second.0 = "second, changed";
    drop(third);
    let _last = Loud("variable");
});

twins!(parts_traced, parts_plain, (x: Three, Three { a, b, c }: Three, (d, e): (Loud, Loud)) {
    drop(x.b);
    Pending(1).await;
    let _ = (&x.a.0, &x.c.0, c.0, b.0, a.0, d.0, e.0);
});

impl Three {
    #[traced(crate = crate::double)]
    async fn traced(self, other: Loud) {
        drop(self.b);
        Pending(1).await;
        let _ = other.0;
    }

    async fn plain(self, other: Loud) {
        drop(self.b);
        Pending(1).await;
        let _ = other.0;
    }
}

fn three(a: &'static str, b: &'static str, c: &'static str) -> Three {
    Three {
        a: Loud(a),
        b: Loud(b),
        c: Loud(c),
    }
}

/// The values that are dropped while the future runs to its end, in order.
fn drops(future: impl Future<Output = ()>) -> Vec<String> {
    LOG.take();
    finish(future);
    let mut words = LOG.take();
    words.retain(|word| !word.contains(['{', '}']));
    words
}

#[test]
fn parameters_of_a_future_drop_in_their_order() {
    let [traced, plain] = [true, false].map(|traced| {
        let (first, second, third) = (Loud("first"), Loud("second"), Loud("third"));
        if traced {
            drops(two_traced(first, second, third))
        } else {
            drops(two_plain(first, second, third))
        }
    });
    assert_eq!(traced, plain);
    assert_eq!(plain, ["third", "variable", "second, changed", "first"]);

    let [traced, plain] = [true, false].map(|traced| {
        let (x, y) = (three("p", "q", "r"), three("a", "b", "c"));
        let pair = (Loud("d"), Loud("e"));
        if traced {
            drops(parts_traced(x, y, pair))
        } else {
            drops(parts_plain(x, y, pair))
        }
    });
    assert_eq!(traced, plain);
    assert_eq!(plain, ["q", "e", "d", "c", "b", "a", "p", "r"]);

    let traced = drops(three("a", "b", "c").traced(Loud("other")));
    assert_eq!(traced, drops(three("a", "b", "c").plain(Loud("other"))));
    assert_eq!(traced, ["b", "other", "a", "c"]);
}
