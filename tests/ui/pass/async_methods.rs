//! `async` methods, with `self` in every form, in types and in traits.
#![forbid(unsafe_code)]
#![deny(warnings)]

#![allow(async_fn_in_trait)]

use fdr::traced;
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

#[derive(Clone, Default)]
struct Store {
    a: String,
    b: Vec<String>,
}

impl Store {
    #[traced]
    async fn create() -> Self {
        ready(()).await;
        Self::default()
    }

    #[traced]
    async fn by_ref(&self) -> &str {
        ready(()).await;
        &self.a
    }

    #[traced]
    async fn by_mut(&mut self) -> &mut Vec<String> {
        ready(()).await;
        self.a.push('x');
        &mut self.b
    }

    #[traced]
    async fn by_value(self) -> Vec<String> {
        ready(()).await;
        self.b
    }

    #[traced]
    async fn by_mut_value(mut self) -> Self {
        self.a.push('y');
        ready(()).await;
        self
    }

    #[traced]
    async fn by_box(self: Box<Self>) -> String {
        ready(()).await;
        self.a
    }

    #[traced]
    async fn by_arc(self: Arc<Self>, other: &Self) -> usize {
        ready(()).await;
        self.a.len() + other.a.len()
    }

    #[traced]
    async fn by_pin(self: Pin<&mut Self>) -> usize {
        ready(()).await;
        self.a.len()
    }
}

trait Load {
    async fn load(&mut self, key: &str) -> Option<String>;

    #[traced]
    async fn load_twice(&mut self, key: &str) -> Option<(String, String)> {
        let first = self.load(key).await?;
        Some((first, self.load(key).await?))
    }

    fn sendable(&self) -> impl Future<Output = usize> + Send;
}

impl Load for Store {
    #[traced]
    async fn load(&mut self, key: &str) -> Option<String> {
        ready(()).await;
        self.b.iter().find(|name| *name == key).cloned()
    }

    #[traced]
    async fn sendable(&self) -> usize {
        ready(()).await;
        self.b.len()
    }
}

fn finished<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("nothing in here waits for anything"),
    }
}

fn main() {
    let mut store = finished(Store::create());
    finished(store.by_mut()).push("key".into());
    assert_eq!(finished(store.by_ref()), "x");
    assert_eq!(finished(store.clone().by_mut_value()).a, "xy");
    assert_eq!(finished(Box::new(store.clone()).by_box()), "x");
    assert_eq!(finished(Arc::new(store.clone()).by_arc(&store)), 2);
    assert_eq!(finished(Pin::new(&mut store).by_pin()), 1);
    assert!(finished(store.load_twice("key")).is_some() && finished(store.load_twice("no")).is_none());
    assert_eq!(finished(store.sendable()), 1);
    assert_eq!(finished(store.by_value()), ["key"]);
}
