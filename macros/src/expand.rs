//! From a [`Function`] to the function that records. The head stays as it is, and the body gets a guard in front of it.
//! The body must behave exactly as without the attribute, and the compiler and clippy must report the same about it. So
//! the user's tokens are never rewritten. All added tokens have this macro's hygiene, and name only `fdr::private`. The
//! added variables have names that no constant of a program has, because in a pattern the name of a constant does not
//! make a variable.

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::quote_spanned;

use crate::arguments::Code;
use crate::body::{Body, Future, mentions};
use crate::canonical::is_canonical;
use crate::desugar::Desugared;
use crate::frame;
use crate::options::Options;
use crate::params::{Binding, bound_by_value};
use crate::parse::{Function, diverges};
use crate::process::{is_edition_2015, is_only_linted, program_version};

pub(crate) fn expand(mut function: Function, options: &Options) -> TokenStream {
    let span = Span::mixed_site();
    let private = match &options.krate {
        Some(path) => quote_spanned!(span=> #path::private),
        None => quote_spanned!(span=> ::fdr::private),
    };
    // `file!` and `line!` give the place of their span: that of the function's name.
    let at = function.name.span();
    let place = match is_edition_2015() {
        false => quote_spanned!(at=> ::core::file!(), ::core::line!()),
        // `::core` would be a module of the person's crate.
        true => quote_spanned!(at=> core::file!(), core::line!()),
    };
    let name = options.name.as_deref();
    let name = name.map(|name| quote_spanned!(span=> , named = #name));
    let untimed = options.untimed.then(|| quote_spanned!(span=> , untimed));
    let auto = options.auto.then(|| quote_spanned!(span=> , auto));
    let version = program_version().map(|version| quote_spanned!(span=> , version = #version));
    let values = options.values.code(&function, &private);
    let recorder = Recorder {
        values,
        place: quote_spanned!(span=> #place #name #untimed #auto #version),
        private,
        untimed: options.untimed,
    };

    let is_canonical = is_canonical(&function.name.to_string(), function.body.stream());
    let body = Body::split(function.body.stream());
    let inside = if function.is_async && body.may_await() {
        let desugars = options.desugars && !is_only_linted();
        let desugared = desugars.then(|| Desugared::of(&function, &recorder.private));
        match desugared.flatten() {
            Some(Desugared { head, parameters }) => {
                function.item.head = head;
                around_coroutine(&function, body, &parameters, &recorder)
            }
            None if is_only_linted() => beside_body(body, &recorder),
            None => around_polls(&function, body, &recorder),
        }
    } else if let Some(future) = value_that_is_polled(&function, &body, &recorder) {
        around_future(body, future, &recorder)
    } else if recorder.values.result.is_some() || frame::is_own(&function, &body) {
        around_closure(&function, body, &recorder)
    } else {
        around_body(body, &recorder)
    };
    let mut braces = Group::new(Delimiter::Brace, inside);
    braces.set_span(if is_canonical {
        // Clippy reports nothing about code with a macro's span. Without the attribute it would have accepted this
        // body.
        span.located_at(function.body.span())
    } else {
        function.body.span()
    });
    function.with_body(braces)
}

/// The names and code that an expansion needs.
struct Recorder {
    /// The path of `fdr::private`.
    private: TokenStream,
    /// The arguments of the function's site: file and line, and the options of the attribute.
    place: TokenStream,
    untimed: bool,
    values: Code,
}

/// The guard is in the body's own block, behind its leading items. So the block's value, the order of drops, and what
/// lints see stay as they are.
fn around_body(body: Body, recorder: &Recorder) -> TokenStream {
    let (front, guard, rest) = (body.front(), guard(recorder), body.rest);
    quote_spanned!(Span::mixed_site()=> #front #guard #rest)
}

fn guard(recorder: &Recorder) -> TokenStream {
    let Recorder { private, place, .. } = recorder;
    let span = Span::mixed_site();
    let site = quote_spanned!(span=> #private::site!(#place));
    let enter = match recorder.untimed {
        false => quote_spanned!(span=> enter),
        true => quote_spanned!(span=> enter_untimed),
    };
    if !recorder.values.is_any {
        return quote_spanned!(span=> let __fdr_guard = #private::#enter(#site););
    }
    let arguments = recorder.values.arguments.as_ref();
    let arguments = arguments
        .map(|arguments| quote_spanned!(span=> if __fdr_guard.is_recorded() { #arguments }));
    quote_spanned! {span=>
        let __fdr_site = #site;
        let __fdr_guard = #private::#enter(__fdr_site);
        #arguments
    }
}

/// Puts the body behind the guard as a closure. So the guard is not in the body's frame, and the result can be recorded
/// before the guard ends. As in [`around_polls`], `__fdr_output` ties the closure's type to the function's return type.
/// If there is a result to record, the closure captures whole parameters that the body names, as there.
fn around_closure(function: &Function, body: Body, recorder: &Recorder) -> TokenStream {
    let span = Span::mixed_site();
    let private = &recorder.private;
    let (front, guard, rest) = (body.front(), guard(recorder), body.rest);
    let bindings = match recorder.values.result {
        None => Vec::new(),
        Some(_) => bound_by_value(function.signature().as_ref()),
    };
    let captures = captures(&bindings, &rest);
    let lints = lints(&bindings);
    let block = with_tokens(&function.body, quote_spanned!(span=> #captures #rest));
    let closure = quote_spanned!(function.body.span()=> move || #block);
    let value = quote_spanned!(span=> #private::own_frame(__fdr_output, #closure));
    let value = match &recorder.values.result {
        None => value,
        Some(result) => quote_spanned! {span=>
            #lints
            let __fdr_result = #value;
            if __fdr_guard.is_recorded() { #result }
            __fdr_result
        },
    };
    quote_spanned! {span=>
        #front
        #guard
        let __fdr_output = #private::Output::NEW;
        if false { return #private::never(__fdr_output); }
        #value
    }
}

/// The compiler takes the last write to a captured value for useless.
fn lints(bindings: &[Binding]) -> Option<TokenStream> {
    let is_mut = bindings.iter().any(|binding| binding.is_mut);
    is_mut.then(|| quote_spanned!(Span::mixed_site()=> #[allow(unused_assignments)]))
}

/// The parts of a future whose polls are calls.
struct FutureParts {
    /// The function that makes it of another one.
    polled: TokenStream,
    /// Statements in front of the future, if something is recorded inside of it.
    before: Option<TokenStream>,
    sites: TokenStream,
    /// Records the arguments, inside of the future.
    arguments: Option<TokenStream>,
    /// Puts another future around `__fdr_body`, which records the result.
    result: Option<TokenStream>,
}

impl FutureParts {
    fn new(recorder: &Recorder) -> FutureParts {
        let span = Span::mixed_site();
        let Recorder {
            private,
            place,
            values,
            ..
        } = recorder;
        // A future without times for its polls is no task.
        let (polled, sites, first) = match recorder.untimed {
            false => (
                quote_spanned!(span=> polled),
                quote_spanned!(span=> #private::task_sites!(#place)),
                quote_spanned!(span=> &__fdr_sites[0]),
            ),
            true => (
                quote_spanned!(span=> polled_untimed),
                quote_spanned!(span=> #private::site!(#place)),
                quote_spanned!(span=> __fdr_sites),
            ),
        };
        // Arguments and results are inside of the future, and the site is there, too.
        let (before, sites) = match values.is_any {
            false => (None, sites),
            true => (
                Some(quote_spanned! {span=>
                    let __fdr_sites = #sites;
                    let __fdr_site = #first;
                }),
                quote_spanned!(span=> __fdr_sites),
            ),
        };
        let arguments = values
            .arguments
            .as_ref()
            .map(|arguments| quote_spanned!(span=> if #private::is_on(__fdr_site) { #arguments }));
        let result = values.result.as_ref().map(|result| {
            quote_spanned! {span=>
                let __fdr_body = async move {
                    let __fdr_result = __fdr_body.await;
                    if #private::is_on(__fdr_site) { #result }
                    __fdr_result
                };
            }
        });
        FutureParts {
            polled,
            before,
            sites,
            arguments,
            result,
        }
    }
}

/// What clippy reads: an `async fn` with its own body, because its lints look for that. The recorder's code is there for
/// the types of the user's values, and never runs. The path of the crate counts as used.
fn beside_body(body: Body, recorder: &Recorder) -> TokenStream {
    let span = Span::mixed_site();
    let private = &recorder.private;
    let FutureParts {
        before, arguments, ..
    } = FutureParts::new(recorder);
    let result = recorder.values.result.as_ref().map(|result| {
        quote_spanned! {span=>
            let __fdr_output = #private::Output::NEW;
            if false { return #private::never(__fdr_output); }
            if false {
                let __fdr_result = #private::never(__fdr_output);
                #result
            }
        }
    });
    let (front, rest) = (body.front(), body.rest);
    let used = quote_spanned!(span=> let _ = #private::Output::<()>::NEW;);
    quote_spanned!(span=> #front #used #before #arguments #result #rest)
}

/// The body of a function that gives back a future, which is its only coroutine.
///
/// - The first `return` gives the function's type of output to `__fdr_output`, before the body is read. That type has
///   the same use as in [`around_polls`].
/// - The second one drops the temporaries of the body's tail before the parameters, as an `async fn` does. The body has
///   a label, because the compiler would warn of a `return` behind a body that never ends.
fn around_coroutine(
    function: &Function,
    body: Body,
    parameters: &TokenStream,
    recorder: &Recorder,
) -> TokenStream {
    let span = Span::mixed_site();
    let private = &recorder.private;
    let FutureParts {
        polled,
        before,
        sites,
        arguments,
        result,
    } = FutureParts::new(recorder);
    let Body {
        attributes,
        items,
        rest,
    } = body;
    // The compiler's messages point to the body, as they do for an `async fn`.
    let at = function.body.span();
    let label = quote_spanned!(at=> '__fdr_body);
    let tie = quote_spanned!(span=> if false { break #label #private::never(__fdr_output); });
    let block = quote_spanned!(span=> #items #tie #arguments #rest);
    let block = with_tokens(&function.body, block);
    let inside = quote_spanned!(span=> #parameters return #label: #block;);
    let inside = with_tokens(&function.body, inside);
    let future = quote_spanned!(at=> async move #inside);
    let never = quote_spanned!(span=> #private::never(#private::Output::NEW));
    let returned = quote_spanned!(at=> __fdr_returned);
    quote_spanned! {span=>
        #attributes
        #before
        let __fdr_output = #private::Output::NEW;
        if false {
            let #returned = #private::#polled(#never, __fdr_output, #never);
            return #returned;
        }
        let __fdr_body = #future;
        #result
        let #returned = #private::#polled(#sites, __fdr_output, __fdr_body);
        #returned
    }
}

/// Moves the body into a future of its own, which each poll polls.
///
/// - `__fdr_output` gives the inner future the function's type of output. So `?`, coercions and closures in the body
///   are inferred as before. The return type can't be written a second time, because it may be an `impl Trait`. If the
///   function never returns, no type is tied to it, because the added statement would be unreachable code.
/// - Parameters that the body names are captured whole. Their order makes them drop as those of an `async fn` do: after
///   the temporaries of the body's tail, the last parameter first.
/// - The compiler warns that the last write to a captured value is useless, even if the value's drop reads it. This
///   warning would be wrong, so the lint is silenced for `mut` parameters.
fn around_polls(function: &Function, body: Body, recorder: &Recorder) -> TokenStream {
    let span = Span::mixed_site();
    let private = &recorder.private;
    let FutureParts {
        polled,
        before,
        sites,
        arguments,
        result,
    } = FutureParts::new(recorder);
    let signature = function.signature();
    let diverges = signature.as_ref().is_some_and(diverges);
    let bindings = bound_by_value(signature.as_ref());
    let lints = lints(&bindings);
    let (attributes, items, rest) = (body.attributes, body.items, body.rest);
    let rest = quote_spanned!(span=> #arguments #rest);
    let captures = captures(&bindings, &rest);
    let tie = (!diverges)
        .then(|| quote_spanned!(span=> if false { return #private::never(__fdr_output); }));
    let inside = quote_spanned!(span=> #items #tie #captures #rest);
    let block = with_tokens(&function.body, inside);
    // The future has the span of the body, as that of an `async fn` has. The compiler's messages point to this span.
    let future = quote_spanned!(function.body.span()=> async move #block);
    let polled = quote_spanned!(span=> #private::#polled(#sites, __fdr_output, __fdr_body).await);
    let last = match diverges {
        true => polled,
        false => quote_spanned!(span=> return #polled;),
    };
    quote_spanned! {span=>
        #attributes
        #before
        let __fdr_output = #private::Output::NEW;
        #tie
        #lints
        let __fdr_body = #future;
        #result
        #last
    }
}

/// The future that the function gives back, if its polls can be recorded. Each argument that is recorded must be in the
/// future without the attribute, too. Otherwise the attribute would make the future borrow more.
fn value_that_is_polled(function: &Function, body: &Body, recorder: &Recorder) -> Option<Future> {
    if function.is_async {
        return None;
    }
    let future = Future::at_end_of(&body.rest)?;
    let bindings = bound_by_value(function.signature().as_ref());
    let is_held = |code: &TokenStream| {
        let mut names = bindings.iter().map(|binding| &binding.name);
        let in_block = |name| mentions(future.block.stream(), name);
        future.is_move && names.all(|name| in_block(name) || !mentions(code.clone(), name))
    };
    let arguments = recorder.values.arguments.as_ref();
    arguments.is_none_or(is_held).then_some(future)
}

/// The function makes a future, as `async fn` does, and each poll of the future is a call. The call that makes it
/// leaves no record.
fn around_future(body: Body, future: Future, recorder: &Recorder) -> TokenStream {
    let span = Span::mixed_site();
    let private = &recorder.private;
    let FutureParts {
        polled,
        before: first,
        sites,
        arguments,
        result,
    } = FutureParts::new(recorder);
    let front = body.front();
    let Future {
        before,
        boxed,
        words,
        block,
        ..
    } = future;
    let inside = block.stream();
    let block = with_tokens(&block, quote_spanned!(span=> #arguments #inside));
    let future = quote_spanned!(span=> #words #block);
    let polled = |value| match recorder.untimed {
        false => quote_spanned!(span=> #private::task_of(#sites, #value)),
        true => quote_spanned!(span=> #private::#polled(#sites, #private::Output::NEW, #value)),
    };
    let polled = match first {
        None => polled(future),
        Some(first) => {
            let polled = polled(quote_spanned!(span=> __fdr_body));
            quote_spanned!(span=> { #first let __fdr_body = #future; #result #polled })
        }
    };
    let value = match boxed {
        None => polled,
        Some((path, parentheses)) => {
            let held = with_tokens(&parentheses, polled);
            quote_spanned!(span=> #path #held)
        }
    };
    quote_spanned!(span=> #front #before #value)
}

/// Statements that capture parameters by value, the last one first: captures drop in their order.
fn captures(bindings: &[Binding], code: &TokenStream) -> TokenStream {
    let mut captures = TokenStream::new();
    for Binding { name, .. } in bindings.iter().rev() {
        // A parameter that the body does not name is not captured, so that the compiler still reports it as unused. A
        // name that begins with `_` must not count as used.
        if mentions(code.clone(), name) && !name.to_string().starts_with('_') {
            captures.extend(quote_spanned!(Span::mixed_site()=> let _ = &#name;));
        }
    }
    captures
}

/// A group with the same delimiters and span, around other tokens. With the span of the user's braces, messages show
/// the block as before.
pub(crate) fn with_tokens(group: &Group, tokens: TokenStream) -> Group {
    let mut same = Group::new(group.delimiter(), tokens);
    same.set_span(group.span());
    same
}
