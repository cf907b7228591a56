//! Whole scopes: which of their functions record, and with which options. The recorder is the double of the
//! file that this one is a module of.

use fdr::traced;

use crate::{Loud, finish, log, logged};

struct Pile(Vec<u32>);

#[traced(crate = crate::double)]
impl Pile {
    const LIMIT: usize = 8;

    fn sum(&self) -> u32 {
        let mut sum = 0;
        for height in &self.0 {
            sum += height;
        }
        sum
    }

    fn height(&self) -> u32 {
        self.0.len() as u32
    }

    #[inline(always)]
    fn clear(&mut self) {
        self.0.clear();
    }

    const fn limit() -> usize {
        Self::LIMIT
    }

    #[traced(always)]
    fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    #[traced(skip)]
    fn longest(&self) -> u32 {
        let mut longest = 0;
        for height in &self.0 {
            longest = longest.max(*height);
        }
        longest
    }

    #[traced(untimed)]
    fn quick(&self) {
        log("quick");
    }

    #[traced(name = "named")]
    fn unnamed(&self) {
        fn inner() {
            for word in ["in", "ner"] {
                log(word);
            }
        }
        inner();
    }

    async fn wait(&self) -> u32 {
        std::future::ready(self.0.len() as u32).await
    }
}

#[test]
fn an_impl_traces_what_is_worth_it() {
    let mut pile = Pile(vec![1, 2]);
    assert_eq!(logged(|| assert_eq!(pile.sum(), 3)), "sum { } sum");
    let nothing = logged(|| {
        assert_eq!(pile.height() + pile.longest(), 4);
        assert_eq!(Pile::limit(), 8);
    });
    assert_eq!(nothing, "");
    assert_eq!(
        logged(|| assert_eq!(pile.first(), Some(1))),
        "first { } first"
    );
    assert_eq!(logged(|| pile.quick()), "untimed quick { quick } quick");
    assert_eq!(logged(|| pile.unnamed()), "named { in ner } named");
    let polls = logged(|| assert_eq!(finish(pile.wait()), (2, 1)));
    assert_eq!(polls, "wait { } wait");
    assert_eq!(logged(|| pile.clear()), "");
}

#[traced(always, untimed, crate = crate::double)]
trait Shape {
    fn sides(&self) -> u32;

    fn name(&self) -> &'static str {
        "shape"
    }
}

impl Shape for Pile {
    fn sides(&self) -> u32 {
        self.height()
    }
}

#[test]
fn a_trait_traces_its_own_bodies() {
    let pile = Pile(Vec::new());
    assert_eq!(logged(|| assert_eq!(pile.sides(), 0)), "");
    assert_eq!(
        logged(|| assert_eq!(pile.name(), "shape")),
        "untimed name { } name"
    );
}

#[traced(min_statements = 2, crate = crate::double)]
mod module {
    use super::{Loud, log};

    pub(super) fn one() {
        log("one");
    }

    pub(super) fn two() {
        let _loud = Loud("drop");
        log("two");
    }

    pub(super) mod nested {
        use super::log;
        use fdr::traced;

        pub(in super::super) fn two() {
            log("a");
            log("b");
        }

        #[traced(skip)]
        pub(in super::super) mod quiet {
            pub(in super::super::super) fn two() {
                super::log("a");
                super::log("b");
            }
        }

        pub(in super::super) struct Thing;

        #[traced(always)]
        impl Thing {
            pub(in super::super) fn one(&self) {}
        }

        impl Clone for Thing {
            fn clone(&self) -> Thing {
                log("clone");
                Thing
            }
        }
    }
}

#[test]
fn a_module_hands_its_options_down() {
    use module::nested;
    assert_eq!(logged(module::one), "one");
    assert_eq!(logged(module::two), "two { two drop } two");
    assert_eq!(logged(nested::two), "two { a b } two");
    assert_eq!(logged(nested::quiet::two), "a b");
    assert_eq!(logged(|| nested::Thing.one()), "one { } one");
    assert_eq!(
        logged(|| drop(nested::Thing.clone())),
        "clone { clone } clone"
    );
}

macro_rules! given {
    ($vis:vis $name:ident, $body:block, $item:item) => {
        #[traced(always, crate = crate::double)]
        mod $name {
            $vis fn f() $body
            $item
        }
    };
}

given!(pub(super) given, { crate::log("f") }, pub(super) fn g() { crate::log("g") });

#[test]
fn items_that_a_macro_was_given() {
    assert_eq!(logged(given::f), "f { f } f");
    assert_eq!(logged(given::g), "g { g } g");
}
