//! Arguments and results of calls: reads the options `args`, `ret` and `err`, and makes the code that records the
//! values. The code names only `fdr::private`, its own variables, and what the user wrote.

use proc_macro2::{Ident, Punct, Spacing, Span, TokenStream};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Result, ReturnType, Token, parenthesized, token};

use crate::params::{Binding, bound};
use crate::parse::{Function, diverges};

/// The options `args`, `ret` and `err`.
#[derive(Default)]
pub(crate) struct ValueOptions {
    arguments: Option<Arguments>,
    result: Option<(Ident, Option<Punct>)>,
    error: Option<(Ident, Option<Punct>)>,
}

enum Arguments {
    /// Each parameter whose type has a value.
    All,
    Chosen(Vec<ChosenValue>),
}

/// A value that a person chose.
struct ChosenValue {
    name: Ident,
    sign: Option<Punct>,
    value: Expr,
}

/// The code of an expansion. `__fdr_site` is the function's site there, and `__fdr_result` the result.
pub(crate) struct Code {
    /// Whether there is any code.
    pub(crate) is_any: bool,
    /// Records the arguments.
    pub(crate) arguments: Option<TokenStream>,
    /// Records the result.
    pub(crate) result: Option<TokenStream>,
}

impl ValueOptions {
    /// Parses the option `args`, `ret` or `err`, behind its word.
    pub(crate) fn parse_option(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        if key == "args" {
            self.arguments = Some(parse_arguments(key, input)?);
        } else if key == "ret" {
            self.result = Some((key.clone(), parse_sign_of_result(key, None, input)?));
        } else {
            let display = Some(Punct::new('%', Spacing::Alone));
            self.error = Some((key.clone(), parse_sign_of_result(key, display, input)?));
        }
        Ok(())
    }

    /// An error if the options ask for a result that the function does not have.
    pub(crate) fn check(&self, function: &Function) -> Result<()> {
        let Some((key, _)) = self.result.as_ref().or(self.error.as_ref()) else {
            return Ok(());
        };
        let what = match function.signature() {
            Some(signature) if diverges(&signature) => "never returns",
            Some(signature) if matches!(signature.output, ReturnType::Default) => "returns nothing",
            _ => return Ok(()),
        };
        let text = format!("`{key}` records a result, and this function {what}\nremove `{key}`");
        Err(Error::new(key.span(), text))
    }

    pub(crate) fn code(&self, function: &Function, private: &TokenStream) -> Code {
        let arguments = match &self.arguments {
            None => Vec::new(),
            Some(Arguments::All) => all(function, private),
            Some(Arguments::Chosen(chosen)) => chosen
                .iter()
                .enumerate()
                .map(|(nth, chosen)| chosen.field(nth, private))
                .collect(),
        };
        let span = Span::mixed_site();
        let arguments = (!arguments.is_empty())
            .then(|| quote_spanned!(span=> #private::arguments(__fdr_site, &[#(#arguments),*]);));
        let result = self.result_code(private);
        Code {
            is_any: arguments.is_some() || result.is_some(),
            arguments,
            result,
        }
    }

    fn result_code(&self, private: &TokenStream) -> Option<TokenStream> {
        let record = |(key, sign): &(Ident, Option<Punct>), place: &str, variable: &str| {
            let span = Span::mixed_site().located_at(key.span());
            let (place, variable) = (Ident::new(place, span), Ident::new(variable, span));
            let value = quote_spanned!(span=> #private::value!(#sign #variable));
            quote_spanned!(span=> #private::result(__fdr_site, #private::#place, #value);)
        };
        let result = |variable| Some(record(self.result.as_ref()?, "RESULT", variable));
        let Some(error) = &self.error else {
            return result("__fdr_result");
        };
        let span = Span::mixed_site().located_at(error.0.span());
        let value = result("__fdr_value");
        let error = record(error, "ERROR", "__fdr_error");
        let results = quote_spanned!(span=> #private::core::result::Result);
        Some(match value {
            None => quote_spanned! {span=>
                if let #results::Err(__fdr_error) = &__fdr_result { #error }
            },
            Some(value) => quote_spanned! {span=>
                match &__fdr_result {
                    #results::Ok(__fdr_value) => { #value }
                    #results::Err(__fdr_error) => { #error }
                }
            },
        })
    }
}

/// All parameters with a name. The type of a parameter decides whether it has a value. Names that begin with `_` are
/// left out, because they mark unused parameters.
fn all(function: &Function, private: &TokenStream) -> Vec<TokenStream> {
    let mut fields = Vec::new();
    for Binding { name, nth, .. } in bound(function.signature().as_ref()) {
        if name != "self" && !name.to_string().starts_with('_') {
            let value = quote_spanned!(Span::mixed_site()=> #private::ValueOf(&#name).value());
            fields.push(field(nth, &name, &value, private));
        }
    }
    fields
}

impl Parse for ChosenValue {
    /// `[key =] [% or ?] expression`
    fn parse(input: ParseStream<'_>) -> Result<ChosenValue> {
        let at = input.span();
        let has_name =
            input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]);
        let name = has_name.then(|| input.call(Ident::parse_any)).transpose()?;
        input.parse::<Option<Token![=]>>()?;
        let sign = parse_sign(input)?;
        if input.is_empty() || input.peek(Token![,]) {
            let text = "an argument needs a value: write `name` or `key = expression`";
            return Err(Error::new(at, text));
        }
        let value: Expr = input.parse()?;
        let only_name = match &value {
            Expr::Path(path) => path.path.get_ident(),
            _ => None,
        };
        if let (Some(word), None) = (only_name.filter(|name| *name == "self"), &sign) {
            let text = "`self` is no value of a field: name a part of it, as in `id = self.id`, or write `?self`";
            return Err(Error::new(word.span(), text));
        }
        let ends = input.is_empty() || input.peek(Token![,]);
        let Some(name) = name.or_else(|| only_name.filter(|_| ends).cloned()) else {
            let text = "an expression needs a name: write `key = expression`";
            return Err(Error::new(at, text));
        };
        Ok(ChosenValue { name, sign, value })
    }
}

impl ChosenValue {
    fn field(&self, nth: usize, private: &TokenStream) -> TokenStream {
        let span = Span::mixed_site();
        let ChosenValue { name, sign, value } = self;
        let value = quote_spanned!(span=> #private::value!(#sign #value));
        let value = quote_spanned!(span=> #private::core::option::Option::Some(#value));
        field(nth, name, &value, private)
    }
}

fn field(nth: usize, name: &Ident, value: &TokenStream, private: &TokenStream) -> TokenStream {
    let (place, name) = (nth.min(253) as u8, name.to_string());
    let name = name.strip_prefix("r#").unwrap_or(&name);
    quote_spanned!(Span::mixed_site()=> (#place, #private::name!(#name), #value))
}

/// Parses the sign before a value: `%` records its text by `Display`, `?` its text by `Debug`, no sign the value
/// itself.
fn parse_sign(input: ParseStream<'_>) -> Result<Option<Punct>> {
    let is_sign = input.peek(Token![%]) || input.peek(Token![?]);
    is_sign.then(|| input.parse()).transpose()
}

fn parse_arguments(key: &Ident, input: ParseStream<'_>) -> Result<Arguments> {
    let wrong = |what: &str| {
        let text = format!("{what}: write `args`, or `args(name, key = expression)`");
        Err(Error::new(key.span(), text))
    };
    if input.peek(Token![=]) {
        return wrong("`args` takes no value");
    }
    if !input.peek(token::Paren) {
        return Ok(Arguments::All);
    }
    let listed;
    parenthesized!(listed in input);
    let chosen = Punctuated::<ChosenValue, Token![,]>::parse_terminated(&listed)?;
    match chosen.len() {
        0 => wrong("`args()` names nothing"),
        1..=32 => Ok(Arguments::Chosen(chosen.into_iter().collect())),
        _ => Err(Error::new(key.span(), "`args` takes at most 32 values")),
    }
}

/// Parses the sign behind the `=` of `ret` and `err`.
fn parse_sign_of_result(
    key: &Ident,
    otherwise: Option<Punct>,
    input: ParseStream<'_>,
) -> Result<Option<Punct>> {
    if !input.peek(token::Paren) && input.parse::<Option<Token![=]>>()?.is_none() {
        return Ok(otherwise);
    }
    let sign = parse_sign(input)?;
    if sign.is_none() {
        let text = format!("write `{key}`, `{key} = %` for Display, or `{key} = ?` for Debug");
        return Err(Error::new(key.span(), text));
    }
    Ok(sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::parse::sole_item;

    /// The code of a function's attribute, without the path of the crate.
    fn code(options: &str, function: &str) -> [String; 2] {
        let options = syn::parse_str::<Options>(options).expect("options");
        let function =
            Function::from_item(sole_item(function.parse().expect("tokens"))).expect("a function");
        options.values.check(&function).expect("a result");
        let code = options
            .values
            .code(&function, &quote_spanned!(Span::call_site()=> p));
        let text = |code: Option<TokenStream>| {
            let code = code.unwrap_or_default().to_string();
            code.replace(' ', "").replace("p::", "")
        };
        assert_eq!(
            code.is_any,
            code.arguments.is_some() || code.result.is_some()
        );
        [text(code.arguments), text(code.result)]
    }

    #[test]
    fn all_parameters_that_have_names() {
        let function =
            "fn f<T>(&mut self, a: T, _: u8, _b: u8, (c, [ref d, ..]): E, mut r#in: u8) {}";
        let field =
            |nth, text, name| format!("({nth}u8,name!(\"{text}\"),ValueOf(&{name}).value())");
        let fields = [
            field(0, "a", "a"),
            field(3, "c", "c"),
            field(3, "d", "d"),
            field(4, "in", "r#in"),
        ];
        let wanted = format!("arguments(__fdr_site,&[{}]);", fields.join(","));
        assert_eq!(code("args", function), [wanted, String::new()]);
        // Nothing to record is no code.
        assert_eq!(code("args", "fn f(self, _: u8) {}"), ["", ""]);
        assert_eq!(code("", function), ["", ""]);
    }

    #[test]
    fn chosen_values() {
        let [arguments, _] = code(
            "args(a, k = a + f::<B, C<D>>(1, 2), %b, ?c, self_ = ?self, r#in, l = a < b,)",
            "fn f() {}",
        );
        let field = |nth, name, value| {
            format!("({nth}u8,name!(\"{name}\"),core::option::Option::Some(value!({value})))")
        };
        let fields = [
            field(0, "a", "a"),
            field(1, "k", "a+f::<B,C<D>>(1,2)"),
            field(2, "b", "%b"),
            field(3, "c", "?c"),
            field(4, "self_", "?self"),
            field(5, "in", "r#in"),
            field(6, "l", "a<b"),
        ];
        assert_eq!(
            arguments,
            format!("arguments(__fdr_site,&[{}]);", fields.join(","))
        );
    }

    #[test]
    fn results_and_errors() {
        let result = |options| code(options, "fn f() -> R {}")[1].clone();
        assert_eq!(
            result("ret"),
            "result(__fdr_site,RESULT,value!(__fdr_result));"
        );
        assert_eq!(
            result("ret = ?"),
            "result(__fdr_site,RESULT,value!(?__fdr_result));"
        );
        let error = "result(__fdr_site,ERROR,value!(%__fdr_error));";
        assert_eq!(
            result("err"),
            format!("ifletcore::result::Result::Err(__fdr_error)=&__fdr_result{{{error}}}")
        );
        let both = result("err = ?, ret = %");
        assert!(
            both.contains("Ok(__fdr_value)=>{result(__fdr_site,RESULT,value!(%__fdr_value));}")
        );
        assert!(
            both.contains("Err(__fdr_error)=>{result(__fdr_site,ERROR,value!(?__fdr_error));}")
        );
    }

    #[test]
    fn a_function_without_a_result_has_none() {
        for (options, function) in [
            ("ret", "fn f() {}"),
            ("err", "fn f() -> ! {}"),
            ("err", "fn f() {}"),
        ] {
            let options = syn::parse_str::<Options>(options).expect("options");
            let function = Function::from_item(sole_item(function.parse().expect("tokens")))
                .expect("a function");
            let message = options
                .values
                .check(&function)
                .expect_err("an error")
                .to_string();
            assert!(message.contains("this function"), "{message}");
        }
    }
}
