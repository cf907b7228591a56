//! Methods, with `self` in every form, and associated functions.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

#[derive(Clone, Default)]
struct Counter {
    value: u32,
    parts: Vec<String>,
}

impl Counter {
    #[traced]
    fn new(value: u32) -> Self {
        Self { value, ..Self::default() }
    }

    #[traced]
    fn by_ref(&self) -> u32 {
        self.value
    }

    #[traced]
    fn by_lifetime<'a>(&'a self, _other: &str) -> &'a [String] {
        &self.parts
    }

    #[traced]
    fn by_mut(&mut self) -> &mut u32 {
        self.value += 1;
        &mut self.value
    }

    #[traced]
    fn by_value(self) -> Vec<String> {
        self.parts
    }

    #[traced]
    fn by_mut_value(mut self) -> Self {
        self.value *= 2;
        self
    }

    #[traced]
    fn by_box(self: Box<Self>) -> u32 {
        self.value
    }

    #[traced]
    fn by_rc(self: Rc<Self>) -> usize {
        Rc::strong_count(&self)
    }

    #[traced]
    fn by_arc(self: &Arc<Self>) -> usize {
        Arc::strong_count(self)
    }

    #[traced]
    fn by_pin(self: Pin<&mut Self>) -> u32 {
        self.get_mut().value
    }

    #[traced]
    fn by_typed_ref(self: &mut Self) {
        self.value = 0;
    }

    #[traced]
    fn chained(&mut self, step: u32) -> &mut Self {
        self.value += step;
        self
    }
}

fn main() {
    let mut counter = Counter::new(1);
    assert_eq!(counter.by_ref(), 1);
    assert!(counter.by_lifetime("x").is_empty());
    *counter.by_mut() += 1;
    assert_eq!(counter.chained(1).chained(2).value, 6);
    assert_eq!(counter.clone().by_mut_value().value, 12);
    assert_eq!(Box::new(counter.clone()).by_box(), 6);
    assert_eq!(Rc::new(counter.clone()).by_rc(), 1);
    assert_eq!(Arc::new(counter.clone()).by_arc(), 1);
    assert_eq!(Pin::new(&mut counter).by_pin(), 6);
    counter.by_typed_ref();
    assert_eq!(counter.by_value(), [""; 0]);
}
