//! From a [`Function`] to the function that records. The head stays as it is. The body gets a guard in front of it. The
//! body must mean exactly what it means without the attribute, and the compiler and clippy must say the same of it. So
//! the user's tokens are never rewritten. All added tokens have this macro's hygiene, and name nothing but
//! `fdr::private`. The added variables have names that no constant of a program has, because a pattern with the name of
//! a constant is no variable.

use std::sync::OnceLock;

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::quote_spanned;

use crate::arguments::Code;
use crate::body::{Body, Future, mentions};
use crate::canonical::is_canonical;
use crate::frame;
use crate::options::Options;
use crate::params::{Binding, bound_by_value};
use crate::parse::{Function, diverges};

pub(crate) fn expand(function: Function, options: &Options) -> TokenStream {
    let span = Span::mixed_site();
    let private = match &options.krate {
        Some(path) => quote_spanned!(span=> #path::private),
        None => quote_spanned!(span=> ::fdr::private),
    };
    // The compiler's own macros say where they are written: where the name is, by its span.
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
    let said = options.said.code(&function, &private);
    let recorder = Recorder {
        said,
        place: quote_spanned!(span=> #place #name #untimed #auto #version),
        private,
        untimed: options.untimed,
    };

    let is_canonical = is_canonical(&function.name.to_string(), function.body.stream());
    let body = Body::split(function.body.stream());
    let inside = if function.is_async && body.may_await() {
        around_polls(&function, body, &recorder)
    } else if let Some(future) = value_that_is_polled(&function, &body, &recorder) {
        around_future(body, future, &recorder)
    } else if recorder.said.result.is_some() || frame::is_own(&function, &body) {
        around_closure(&function, body, &recorder)
    } else {
        around_body(body, &recorder)
    };
    let mut braces = Group::new(Delimiter::Brace, inside);
    braces.set_span(if is_canonical {
        // Clippy says nothing of what a macro made, and the body was as clippy wants it.
        span.located_at(function.body.span())
    } else {
        function.body.span()
    });
    function.with_body(braces)
}

/// Whether the crate is of the edition that the compiler takes if it is told none. A span with a place of the person's
/// has the person's edition, too, and a macro cannot ask for it.
fn is_edition_2015() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let words: Vec<_> = std::env::args_os().collect();
        let says = |begin: &str| {
            words
                .iter()
                .any(|word| word.to_string_lossy().starts_with(begin))
        };
        // An editor's process has other arguments, and a file of arguments may say anything.
        says("--crate-name") && !says("@") && (!says("--edition") || says("--edition=2015"))
    })
}

/// The version of the program, where cargo compiles a binary: that of its package. A library does not know
/// which program it will be part of.
fn program_version() -> Option<String> {
    std::env::var_os("CARGO_BIN_NAME")?;
    let version = std::env::var("CARGO_PKG_VERSION").ok()?;
    (!version.is_empty()).then_some(version)
}

/// What an expansion names.
struct Recorder {
    /// The path of `fdr::private`.
    private: TokenStream,
    /// What makes the function's site: file and line, and what the attribute says.
    place: TokenStream,
    untimed: bool,
    said: Code,
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
    if !recorder.said.is_any {
        return quote_spanned!(span=> let __fdr_guard = #private::#enter(#site););
    }
    let arguments = recorder.said.arguments.as_ref();
    let arguments = arguments
        .map(|arguments| quote_spanned!(span=> if __fdr_guard.is_recorded() { #arguments }));
    quote_spanned! {span=>
        let __fdr_site = #site;
        let __fdr_guard = #private::#enter(__fdr_site);
        #arguments
    }
}

/// The body behind the guard is a closure. So its frame knows nothing of the guard, and its value can be looked at
/// before the guard ends. As in [`around_polls`], `__fdr_output` ties what the closure gives back to the function's
/// return type. Where there is a result to record, parameters that the body names are captured whole, as there.
fn around_closure(function: &Function, body: Body, recorder: &Recorder) -> TokenStream {
    let span = Span::mixed_site();
    let private = &recorder.private;
    let (front, guard, rest) = (body.front(), guard(recorder), body.rest);
    let bindings = match recorder.said.result {
        None => Vec::new(),
        Some(_) => bound_by_value(function.signature().as_ref()),
    };
    let captures = captures(&bindings, &rest);
    let lints = lints(&bindings);
    let block = with_tokens(&function.body, quote_spanned!(span=> #captures #rest));
    let closure = quote_spanned!(function.body.span()=> move || #block);
    let value = quote_spanned!(span=> #private::own_frame(__fdr_output, #closure));
    let value = match &recorder.said.result {
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
struct OfPolls {
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

impl OfPolls {
    fn of(recorder: &Recorder) -> OfPolls {
        let span = Span::mixed_site();
        let Recorder {
            private,
            place,
            said,
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
        let (before, sites) = match said.is_any {
            false => (None, sites),
            true => (
                Some(quote_spanned! {span=>
                    let __fdr_sites = #sites;
                    let __fdr_site = #first;
                }),
                quote_spanned!(span=> __fdr_sites),
            ),
        };
        let arguments = said
            .arguments
            .as_ref()
            .map(|arguments| quote_spanned!(span=> if #private::is_on(__fdr_site) { #arguments }));
        let result = said.result.as_ref().map(|result| {
            quote_spanned! {span=>
                let __fdr_body = async move {
                    let __fdr_result = __fdr_body.await;
                    if #private::is_on(__fdr_site) { #result }
                    __fdr_result
                };
            }
        });
        OfPolls {
            polled,
            before,
            sites,
            arguments,
            result,
        }
    }
}

/// The body moves into a future of its own, and that is what each poll goes through.
///
/// - `__fdr_output` gives the inner future the function's type of output. So `?`, coercions and closures in the body
///   are inferred as before. The return type may be an `impl Trait`, which cannot be written twice. Where nothing is
///   returned there is nothing to infer, and the variable would be unreachable code.
/// - Parameters that the body names are captured whole. Their order makes them drop as those of an `async fn` do: after
///   the temporaries of the body's tail, the last parameter first.
/// - The compiler takes the last write to a captured value for useless even where the value's drop
///   reads it; with a `mut` parameter that lint is silenced rather than wrong.
fn around_polls(function: &Function, body: Body, recorder: &Recorder) -> TokenStream {
    let span = Span::mixed_site();
    let private = &recorder.private;
    let OfPolls {
        polled,
        before,
        sites,
        arguments,
        result,
    } = OfPolls::of(recorder);
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
    // At the body's place, as the compiler's own: it is what messages about the future point to.
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

/// The future that the function gives back, if its polls can be recorded. An argument that is recorded must be in the
/// future anyway: otherwise the future would borrow more than it does without the attribute.
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
    let arguments = recorder.said.arguments.as_ref();
    arguments.is_none_or(is_held).then_some(future)
}

/// The function makes a future, as `async fn` does, and each poll of the future is a call. The call that makes it
/// leaves no record.
fn around_future(body: Body, future: Future, recorder: &Recorder) -> TokenStream {
    let span = Span::mixed_site();
    let private = &recorder.private;
    let OfPolls {
        polled,
        before: first,
        sites,
        arguments,
        result,
    } = OfPolls::of(recorder);
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
    let polled =
        |value| quote_spanned!(span=> #private::#polled(#sites, #private::Output::NEW, #value));
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
        // One that is not named stays behind, and is reported as unused as ever; one that begins
        // with `_` must not seem used.
        if mentions(code.clone(), name) && !name.to_string().starts_with('_') {
            captures.extend(quote_spanned!(Span::mixed_site()=> let _ = &#name;));
        }
    }
    captures
}

/// The same group around other tokens. With the person's braces as its span, a block is in messages what it was before.
pub(crate) fn with_tokens(group: &Group, tokens: TokenStream) -> Group {
    let mut same = Group::new(group.delimiter(), tokens);
    same.set_span(group.span());
    same
}
