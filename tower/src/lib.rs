//! Requests of `tower` services as tasks in the traces of [`fdr`]: each has an id, a method, a route, a path and a
//! status. It works with axum, tonic and whatever else takes a [`Layer`].
//!
//! ```
//! use http::{Request, Response};
//! use tower_layer::Layer;
//! use tower_service::Service;
//!
//! # struct Pages;
//! # impl Service<Request<()>> for Pages {
//! #     type Response = Response<()>;
//! #     type Error = ();
//! #     type Future = std::future::Ready<Result<Response<()>, ()>>;
//! #     fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), ()>> {
//! #         std::task::Poll::Ready(Ok(()))
//! #     }
//! #     fn call(&mut self, _: Request<()>) -> Self::Future {
//! #         std::future::ready(Ok(Response::new(())))
//! #     }
//! # }
//! // axum: Router::new().route(…).layer(fdr_tower::layer())
//! // tonic: Server::builder().layer(fdr_tower::layer())
//! let mut service = fdr_tower::layer().layer(Pages);
//! let response = service.call(Request::new(()));
//! ```
//!
//! The task is named `fdr_tower::request`. It lasts from the first poll of the response's future to the response. A body
//! that is sent later is not part of it, and neither is the time before that poll. If the client goes away, the task is
//! dropped.
//!
//! | event | fields |
//! | --- | --- |
//! | `fdr_tower::begin` | `method`, `route`, `path` |
//! | `fdr_tower::end` | `status`, and `grpc_status` where a gRPC call failed |
//! | `fdr_tower::failed` | none: the service returned an error |
//!
//! The route is the one that axum matched, with the feature `axum`, or the path of a gRPC request, which names the
//! method. Other requests have no route.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `record` (default) | the recorder; without it the layer gives each future as it is |
//! | `axum` | routes of axum |

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response, header};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// Makes each request of a service a task.
#[must_use]
pub fn layer() -> RequestLayer {
    RequestLayer { _private: () }
}

/// What [`layer`] gives.
#[derive(Clone, Copy, Debug)]
pub struct RequestLayer {
    _private: (),
}

impl<S> Layer<S> for RequestLayer {
    type Service = RequestService<S>;

    fn layer(&self, inner: S) -> RequestService<S> {
        RequestService { inner }
    }
}

/// A service whose requests are tasks.
#[derive(Clone, Debug)]
pub struct RequestService<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for RequestService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    R: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture<S::Future> {
        // A task of its own costs an allocation, so there is none while requests are not recorded.
        if !site::is_on() {
            let inner = self.inner.call(request);
            return ResponseFuture {
                state: State::Plain { inner },
            };
        }
        let facts = Facts::of(&request);
        let inner = self.inner.call(request);
        let inner = Box::pin(site::task(recorded(facts, inner)));
        ResponseFuture {
            state: State::Task { inner },
        }
    }
}

pin_project! {
    /// What [`RequestService`] gives.
    pub struct ResponseFuture<F: Future> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F: Future> {
        Plain { #[pin] inner: F },
        Task { inner: Pin<Box<dyn Future<Output = F::Output> + Send>> },
    }
}

impl<F: Future> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.project().state.project() {
            StateProjection::Plain { inner } => inner.poll(context),
            StateProjection::Task { inner } => inner.as_mut().poll(context),
        }
    }
}

/// The static of the task, as [`fdr::task!`] makes it, and whether it is on. No lock is taken.
#[cfg(feature = "record")]
mod site {
    use fdr::private;

    fn sites() -> &'static private::TaskSites {
        private::task_sites!(file!(), line!(), named = "fdr_tower::request")
    }

    pub(super) fn is_on() -> bool {
        let [function, ..] = sites();
        private::is_on(function)
    }

    pub(super) fn task<F: Future>(future: F) -> impl Future<Output = F::Output> {
        private::task_of(sites(), future)
    }
}

#[cfg(not(feature = "record"))]
mod site {
    pub(super) fn is_on() -> bool {
        false
    }

    pub(super) fn task<F: Future>(future: F) -> F {
        future
    }
}

/// What the events of a request say.
struct Facts {
    method: http::Method,
    route: Option<String>,
    path: String,
}

impl Facts {
    fn of<B>(request: &Request<B>) -> Facts {
        Facts {
            method: request.method().clone(),
            route: route(request),
            path: request.uri().path().to_owned(),
        }
    }
}

/// The route of a request, if it has one.
fn route<B>(request: &Request<B>) -> Option<String> {
    #[cfg(feature = "axum")]
    if let Some(matched) = request.extensions().get::<axum::extract::MatchedPath>() {
        return Some(matched.as_str().to_owned());
    }
    let kind = request.headers().get(header::CONTENT_TYPE)?;
    let is_grpc = kind.as_bytes().starts_with(b"application/grpc");
    is_grpc.then(|| request.uri().path().to_owned())
}

/// The code of a gRPC call that failed at once. Other calls have it behind their body.
fn grpc_status(headers: &HeaderMap) -> Option<&str> {
    headers.get("grpc-status")?.to_str().ok()
}

/// A request with its events.
async fn recorded<F, R, E>(facts: Facts, inner: F) -> Result<Response<R>, E>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    let (method, path) = (facts.method.as_str(), facts.path.as_str());
    match &facts.route {
        Some(route) => fdr::event!("begin", method, route = route.as_str(), path),
        None => fdr::event!("begin", method, path),
    }
    let result = inner.await;
    if let Ok(response) = &result {
        let status = response.status().as_u16();
        match grpc_status(response.headers()) {
            Some(grpc_status) => fdr::event!("end", status, grpc_status),
            None => fdr::event!("end", status),
        }
    } else {
        fdr::event!("failed");
    }
    result
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    struct Echo;

    impl Service<Request<u8>> for Echo {
        type Response = Response<u8>;
        type Error = u8;
        type Future = Ready<Result<Response<u8>, u8>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), u8>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<u8>) -> Self::Future {
            ready(match *request.body() {
                0 => Err(7),
                number => Ok(Response::new(number)),
            })
        }
    }

    fn ask(body: u8) -> Result<u8, u8> {
        let mut service = layer().layer(Echo);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(service.poll_ready(&mut context), Poll::Ready(Ok(())));
        let future = pin!(service.call(Request::new(body)));
        match future.poll(&mut context) {
            Poll::Ready(result) => result.map(Response::into_body),
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn answers_are_those_of_the_service() {
        assert_eq!((ask(3), ask(0)), (Ok(3), Err(7)));
        let config = fdr::Config::new().filter("*").output("/dev/null");
        config.enable().expect("good settings");
        assert_eq!((ask(3), ask(0)), (Ok(3), Err(7)));
        fdr::disable();
    }

    #[test]
    fn grpc_methods_are_routes() {
        let request = |kind: Option<&str>| {
            let mut request = Request::new(());
            *request.uri_mut() = "/shop.Orders/Place".parse().expect("a path");
            if let Some(kind) = kind {
                let kind = kind.parse().expect("a value");
                request.headers_mut().insert(header::CONTENT_TYPE, kind);
            }
            request
        };
        let found = [Some("application/grpc+proto"), Some("text/html"), None];
        let found = found.map(|kind| route(&request(kind)));
        assert_eq!(found, [Some("/shop.Orders/Place".to_owned()), None, None]);
    }
}
