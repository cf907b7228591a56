//! Code from a template: tokens as they are written, with `#name` for the tokens of a variable. It must give each token
//! of the template the span that it is told, and leave the tokens of variables as they are.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// `code!(span=> template)` gives the tokens of the template. `#name` stands for a variable that is a [`Part`].
macro_rules! code {
    ($span:expr=> $($template:tt)*) => {{
        let code = &mut $crate::code::Template::new($span);
        $crate::code::add!(code, $($template)*);
        code.take_tokens()
    }};
}

/// Adds the tokens of a template, one after the other.
macro_rules! add {
    ($code:ident,) => {};
    ($code:ident, #$part:ident $($rest:tt)*) => {
        $code.add_part(&$part);
        $crate::code::add!($code, $($rest)*);
    };
    ($code:ident, ($($inside:tt)*) $($rest:tt)*) => {
        let inside = $crate::code::code!($code.span=> $($inside)*);
        $code.add_group(proc_macro2::Delimiter::Parenthesis, inside);
        $crate::code::add!($code, $($rest)*);
    };
    ($code:ident, [$($inside:tt)*] $($rest:tt)*) => {
        let inside = $crate::code::code!($code.span=> $($inside)*);
        $code.add_group(proc_macro2::Delimiter::Bracket, inside);
        $crate::code::add!($code, $($rest)*);
    };
    ($code:ident, {$($inside:tt)*} $($rest:tt)*) => {
        let inside = $crate::code::code!($code.span=> $($inside)*);
        $code.add_group(proc_macro2::Delimiter::Brace, inside);
        $crate::code::add!($code, $($rest)*);
    };
    ($code:ident, $token:tt $($rest:tt)*) => {
        $code.add_token(stringify!($token));
        $crate::code::add!($code, $($rest)*);
    };
}

pub(crate) use {add, code};

/// The tokens of a template, as far as they are made.
pub(crate) struct Template {
    pub(crate) span: Span,
    tokens: Vec<TokenTree>,
}

impl Template {
    pub(crate) fn new(span: Span) -> Template {
        Template {
            span,
            tokens: Vec::new(),
        }
    }

    pub(crate) fn take_tokens(&mut self) -> TokenStream {
        self.tokens.drain(..).collect()
    }

    pub(crate) fn add_part(&mut self, part: &impl Part) {
        part.add_to(&mut self.tokens);
    }

    pub(crate) fn add_group(&mut self, delimiter: Delimiter, inside: TokenStream) {
        let mut group = Group::new(delimiter, inside);
        group.set_span(self.span);
        self.tokens.push(group.into());
    }

    /// Adds a word, a number, or signs that belong together, such as `::`.
    pub(crate) fn add_token(&mut self, text: &str) {
        let span = self.span;
        let first = text.chars().next().unwrap_or_default();
        if first == '_' || first.is_ascii_alphabetic() {
            self.tokens.push(Ident::new(text, span).into());
        } else if let Ok(number) = text.parse() {
            let mut number = Literal::usize_unsuffixed(number);
            number.set_span(span);
            self.tokens.push(number.into());
        } else {
            for (at, sign) in text.char_indices() {
                let spacing = match at + 1 < text.len() {
                    true => Spacing::Joint,
                    false => Spacing::Alone,
                };
                let mut sign = Punct::new(sign, spacing);
                sign.set_span(span);
                self.tokens.push(sign.into());
            }
        }
    }
}

/// What a variable of a template may be.
pub(crate) trait Part {
    fn add_to(&self, code: &mut Vec<TokenTree>);
}

impl Part for TokenTree {
    fn add_to(&self, code: &mut Vec<TokenTree>) {
        code.push(self.clone());
    }
}

impl Part for TokenStream {
    fn add_to(&self, code: &mut Vec<TokenTree>) {
        code.extend(self.clone());
    }
}

impl Part for Ident {
    fn add_to(&self, code: &mut Vec<TokenTree>) {
        code.push(self.clone().into());
    }
}

impl Part for Group {
    fn add_to(&self, code: &mut Vec<TokenTree>) {
        code.push(self.clone().into());
    }
}

/// As a literal.
impl Part for str {
    fn add_to(&self, code: &mut Vec<TokenTree>) {
        code.push(Literal::string(self).into());
    }
}

/// As a literal.
impl Part for String {
    fn add_to(&self, code: &mut Vec<TokenTree>) {
        self.as_str().add_to(code);
    }
}

/// As a literal.
impl Part for u8 {
    fn add_to(&self, code: &mut Vec<TokenTree>) {
        code.push(Literal::u8_suffixed(*self).into());
    }
}

impl<T: Part> Part for Option<T> {
    fn add_to(&self, code: &mut Vec<TokenTree>) {
        if let Some(part) = self {
            part.add_to(code);
        }
    }
}

impl<T: Part + ?Sized> Part for &T {
    fn add_to(&self, code: &mut Vec<TokenTree>) {
        (**self).add_to(code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_with_parts() {
        let (word, text, number) = (Ident::new("x", Span::call_site()), "a\"b", 3_u8);
        let (nothing, some) = (None::<TokenStream>, Some(&word));
        let code = code! {Span::mixed_site()=>
            #[allow(unused)] ::a::#word(&b[0], #text #nothing) => { #some; } -> #number
        };
        let wanted = "#[allow(unused)] ::a::x(&b[0], \"a\\\"b\") => { x; } -> 3u8";
        let wanted: TokenStream = wanted.parse().expect("tokens");
        assert_eq!(code.to_string(), wanted.to_string());
    }

    #[test]
    fn signs_that_belong_together_are_joint() {
        let code: Vec<TokenTree> = code!(Span::call_site()=> a::b).into_iter().collect();
        let spacing = |token: &TokenTree| match token {
            TokenTree::Punct(punct) => Some(punct.spacing()),
            _ => None,
        };
        let spacings: Vec<_> = code.iter().map(spacing).collect();
        let wanted = [None, Some(Spacing::Joint), Some(Spacing::Alone), None];
        assert_eq!(spacings, wanted);
    }
}
