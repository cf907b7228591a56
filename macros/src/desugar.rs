//! An `async fn` as the compiler itself reads it: a `fn` that gives back a future. Then the function has one coroutine,
//! and not a second one inside the first. This file may choose only functions of which nobody can tell the difference.

use fdr_marks::items::{Attribute, contains_word, is_in, is_word};
use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, Pat, PatType, Receiver, ReceiverKind, ReturnType, Signature, Token, Type};

use crate::parse::{Function, diverges};

/// Attributes of the compiler that mean the same on both functions, and do not look at the tokens.
const NEUTRAL: &str = "allow cfg cold deny deprecated doc expect forbid inline warn";

/// An `async fn` as a `fn` that gives back a future.
pub(crate) struct Desugared {
    /// The tokens between the attributes and the body.
    pub(crate) head: Vec<TokenTree>,
    /// The statements with which the future begins. They move the parameters into the future, and bind them there.
    pub(crate) parameters: TokenStream,
}

impl Desugared {
    /// `None`: the function must stay an `async fn`.
    pub(crate) fn of(function: &Function, private: &TokenStream) -> Option<Desugared> {
        if !function.item.attributes.iter().all(is_neutral) {
            return None;
        }
        let (last, before) = function.item.head[..function.item.word_at].split_last()?;
        if !is_word(Some(last), "async") || !before.iter().all(is_visibility) {
            return None;
        }
        let mut signature = function.signature()?;
        if diverges(&signature) || signature.variadic.is_some() || borrows(&signature.output) {
            return None;
        }
        let mut parameters = TokenStream::new();
        for (nth, parameter) in signature.inputs.iter_mut().enumerate() {
            parameters.extend(match parameter {
                FnArg::Receiver(receiver) => captured(receiver)?,
                FnArg::Typed(parameter) => bound_inside(parameter, nth)?,
            });
        }
        signature.output = output(&signature, private);
        // Messages about the whole signature begin at the function's first word.
        signature.fn_token.span = last.span();
        let signature = signature.into_token_stream();
        Some(Desugared {
            head: before.iter().cloned().chain(signature).collect(),
            parameters,
        })
    }
}

/// Whether an attribute may stand on a function, or on a scope around it, whose signature changes. Another macro may
/// look for `async`. The result of an `async fn` is meant by `must_use`, and its caller by `track_caller`.
pub(crate) fn is_neutral(attribute: &Attribute) -> bool {
    let is_of_tool = ["clippy::", "rustfmt::", "diagnostic::"];
    is_in(NEUTRAL, &attribute.path)
        || is_of_tool
            .iter()
            .any(|tool| attribute.path.starts_with(tool))
}

/// `pub`, `pub(…)`, or a macro's `$vis`.
fn is_visibility(token: &TokenTree) -> bool {
    match token {
        TokenTree::Ident(word) => word == "pub",
        TokenTree::Group(group) => group.delimiter() != Delimiter::Brace,
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    }
}

/// `self` in a future. It can't be bound a second time, so only borrowed ones pass: parts of others would be captured
/// alone, and the rest dropped earlier. The statement captures `self`, even if the body does not name it.
fn captured(receiver: &Receiver) -> Option<TokenStream> {
    let is_borrowed = matches!(receiver.kind, ReceiverKind::Reference(..));
    let name = &receiver.self_token;
    (is_borrowed && receiver.attrs.is_empty())
        .then(|| quote_spanned!(Span::mixed_site()=> let _ = &#name;))
}

/// Leaves only a name of the parameter, and gives the statements that bind its pattern. A parameter of two lifetimes,
/// such as `&mut Vec<&str>`, may take in data that lives too short. The compiler's message would point to the parameter,
/// and not to the call that puts the data in.
fn bound_inside(parameter: &mut PatType, nth: usize) -> Option<TokenStream> {
    if !parameter.attrs.is_empty() || lifetimes(parameter.ty.to_token_stream()) > 1 {
        return None;
    }
    let span = Span::mixed_site();
    let pattern = parameter.pat.to_token_stream();
    let (name, moved) = match &*parameter.pat {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
            (name.ident.clone(), None)
        }
        pattern => {
            let span = span.located_at(pattern.span());
            let name = Ident::new(&format!("__fdr_parameter_{nth}"), span);
            let moved = quote_spanned!(span=> let #name = #name;);
            (name, Some(moved))
        }
    };
    *parameter.pat = Pat::Verbatim(name.to_token_stream());
    Some(quote_spanned!(span=> #moved let #pattern = #name;))
}

/// Whether the output shows a lifetime. If the body returned data that lives too short, the compiler's message would point
/// to the whole function, and not to the data.
fn borrows(output: &ReturnType) -> bool {
    let output = output.to_token_stream();
    lifetimes(output.clone()) > 0 || contains_word(output, "dyn")
}

/// How many lifetimes the tokens of a type show.
fn lifetimes(tokens: TokenStream) -> usize {
    let mut count = 0;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        count += match token {
            TokenTree::Group(group) => lifetimes(group.stream()),
            TokenTree::Punct(punct) if punct.as_char() == '\'' => 1,
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                let has_name = |next: &TokenTree| matches!(next, TokenTree::Punct(punct) if punct.as_char() == '\'');
                usize::from(!tokens.peek().is_some_and(has_name))
            }
            _ => 0,
        };
    }
    count
}

/// The type of the future. It captures all lifetimes, as that of an `async fn` does, because its `impl` has the edition
/// of this crate. Its last token has a place of the user's, as the signature's first one has: so messages show the
/// signature, and not the attribute.
fn output(signature: &Signature, private: &TokenStream) -> ReturnType {
    let behind = signature.paren_token.span.close();
    let (arrow, ty) = match &signature.output {
        ReturnType::Default => (Token![->](behind), quote_spanned!(behind=> ())),
        ReturnType::Type(arrow, ty) => (Token![->](arrow.spans), ty.to_token_stream()),
    };
    let span = Span::mixed_site().located_at(ty.span());
    let end = quote_spanned!(end_of(&ty).unwrap_or(behind)=> >);
    let future = quote_spanned!(span=> impl #private::core::future::Future<Output = #ty #end);
    ReturnType::Type(arrow, Box::new(Type::Verbatim(future)))
}

/// Where the tokens end.
fn end_of(tokens: &TokenStream) -> Option<Span> {
    match tokens.clone().into_iter().last()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => end_of(&group.stream()),
        TokenTree::Group(group) => Some(group.span_close()),
        last => Some(last.span()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::sole_item;

    /// The head and the statements, without spaces and the path of the crate.
    fn desugared(text: &str) -> Option<String> {
        let item = sole_item(text.parse().expect("tokens"));
        let function = Function::from_item(item).expect("a function");
        let private = quote_spanned!(Span::call_site()=> p);
        let Desugared { head, parameters } = Desugared::of(&function, &private)?;
        let head: TokenStream = head.into_iter().collect();
        let text = format!("{head} {{ {parameters} }}");
        Some(text.replace(' ', "").replace("p::core::future::", ""))
    }

    #[test]
    fn parameters_move_into_the_future() {
        for (text, wanted) in [
            ("async fn a() {}", "fna()->implFuture<Output=()>{}"),
            (
                "#[inline] pub(in b) async fn a<'c, T: D>(&'c mut self, e: &T, mut f: F,) -> Vec<T> where T: G {}",
                "pub(inb)fna<'c,T:D>(&'cmutself,e:&T,f:F,)->implFuture<Output=Vec<T>>whereT:G\
                 {let_=&self;lete=e;letmutf=f;}",
            ),
            (
                "async fn a(_: B, ref c: &'d D, (e, _): F, _g: H) -> impl I {}",
                "fna(__fdr_parameter_0:B,__fdr_parameter_1:&'dD,__fdr_parameter_2:F,_g:H)->implFuture<Output=implI>\
                 {let__fdr_parameter_0=__fdr_parameter_0;let_=__fdr_parameter_0;\
                 let__fdr_parameter_1=__fdr_parameter_1;letrefc=__fdr_parameter_1;\
                 let__fdr_parameter_2=__fdr_parameter_2;let(e,_)=__fdr_parameter_2;let_g=_g;}",
            ),
        ] {
            assert_eq!(desugared(text).as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn others_stay_async() {
        for text in [
            "async unsafe fn a() {}",
            "async extern \"C\" fn a() {}",
            "default async fn a() {}",
            "async fn a(self) {}",
            "async fn a(mut self) {}",
            "async fn a(self: Box<Self>) {}",
            "async fn a(self: &Self) {}",
            "async fn a(#[cfg(b)] c: D) {}",
            "async fn a() -> ! {}",
            "async fn a(&self) -> &str {}",
            "async fn a(&self) -> impl B + '_ {}",
            "async fn a(&self) -> Result<(), Box<dyn Error>> {}",
            "async fn a(b: &mut Vec<&str>) {}",
            "async fn a(b: Cell<&'c D<'e>>) {}",
            "async fn a(b: u8 = 3) {}",
            "#[must_use] async fn a() {}",
            "#[track_caller] async fn a() {}",
            "#[tokio::main] async fn a() {}",
            "#[cfg_attr(b, c)] async fn a() {}",
        ] {
            assert_eq!(desugared(text), None, "{text}");
        }
    }
}
