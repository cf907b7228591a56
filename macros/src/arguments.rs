//! Arguments and results of calls: what the options `args`, `ret` and `err` say, and the code that records it. Nothing
//! is recorded that nobody asked for, and `args` alone takes no text. The code names nothing but `fdr::private`, its own
//! variables, and what a person wrote.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Error, Expr, Result, Token, parenthesized};

use crate::params::bound;
use crate::parse::Function;

/// What the options say.
#[derive(Clone, Default)]
pub(crate) struct Said {
    arguments: Option<Arguments>,
    result: Option<(Ident, How)>,
    error: Option<(Ident, How)>,
}

#[derive(Clone)]
enum Arguments {
    /// Each parameter whose type has a value.
    All,
    Chosen(Vec<Chosen>),
}

/// A value that a person chose.
#[derive(Clone)]
struct Chosen {
    name: Ident,
    how: How,
    value: Expr,
}

/// How a value becomes a field.
#[derive(Clone, Copy)]
enum How {
    /// By its type.
    Value,
    Display,
    Debug,
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

impl Said {
    /// Reads the option `args`, `ret` or `err`, behind its word. False: it is given twice.
    pub(crate) fn read(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<bool> {
        if key == "args" {
            let arguments = read_arguments(key, input)?;
            return Ok(self.arguments.replace(arguments).is_none());
        }
        let (slot, otherwise) = match key == "ret" {
            true => (&mut self.result, How::Value),
            false => (&mut self.error, How::Display),
        };
        let how = read_how_of_result(key, otherwise, input)?;
        Ok(slot.replace((key.clone(), how)).is_none())
    }

    /// Refuses to record the result of a function that has none.
    pub(crate) fn check(&self, function: &Function) -> Result<()> {
        let Some((key, _)) = self.result.as_ref().or(self.error.as_ref()) else {
            return Ok(());
        };
        let what = match (function.returns(), function.diverges()) {
            (false, _) => "returns nothing",
            (_, true) => "never returns",
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
        let arguments = (!arguments.is_empty()).then(|| {
            quote_spanned! {Span::mixed_site()=>
                #private::arguments(__fdr_site, &[#(#arguments),*]);
            }
        });
        let result = self.result_code(private);
        Code {
            is_any: arguments.is_some() || result.is_some(),
            arguments,
            result,
        }
    }

    fn result_code(&self, private: &TokenStream) -> Option<TokenStream> {
        let record = |(key, how): &(Ident, How), place: &str, variable: &str| {
            let span = Span::mixed_site().located_at(key.span());
            let (place, variable) = (Ident::new(place, span), Ident::new(variable, span));
            let sign = how.sign(span);
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

/// Each parameter that has a name. Its type says whether it has a value. A name that begins with `_` says that the
/// parameter is not used.
fn all(function: &Function, private: &TokenStream) -> Vec<TokenStream> {
    let names = bound(&function.head[function.after_name..]);
    let is_taken = |name: &Ident| name != "self" && !name.to_string().starts_with('_');
    let names = names.iter().filter(|binding| is_taken(&binding.name));
    let field = |nth: usize, name: &Ident| {
        let value = quote_spanned!(Span::mixed_site()=> #private::ValueOf(&#name).value());
        field(nth, name, &value, private)
    };
    names
        .map(|binding| field(binding.nth, &binding.name))
        .collect()
}

impl Chosen {
    fn read(input: ParseStream<'_>) -> Result<Chosen> {
        let named =
            input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]);
        let name = match named {
            true => {
                let name = input.call(Ident::parse_any)?;
                input.parse::<Token![=]>()?;
                Some(name)
            }
            false => None,
        };
        let how = match () {
            () if input.parse::<Option<Token![%]>>()?.is_some() => How::Display,
            () if input.parse::<Option<Token![?]>>()?.is_some() => How::Debug,
            () => How::Value,
        };
        if input.is_empty() || input.peek(Token![,]) {
            return Err(
                input.error("an argument needs a value: write `name` or `key = expression`")
            );
        }
        let value: Expr = input.parse()?;
        let is_self = matches!(&value, Expr::Path(path) if path.path.is_ident("self"));
        if is_self && matches!(how, How::Value) {
            return Err(Error::new_spanned(
                value,
                "`self` is no value of a field: name a part of it, as in `id = self.id`, or write `?self`",
            ));
        }
        let name = name.or_else(|| match &value {
            Expr::Path(path) => path.path.get_ident().cloned(),
            _ => None,
        });
        let Some(name) = name else {
            return Err(Error::new_spanned(
                value,
                "an expression needs a name: write `key = expression`",
            ));
        };
        Ok(Chosen { name, how, value })
    }

    fn field(&self, nth: usize, private: &TokenStream) -> TokenStream {
        let span = Span::mixed_site();
        let (sign, value) = (self.how.sign(span), &self.value);
        let value = quote_spanned!(span=> #private::value!(#sign #value));
        let value = quote_spanned!(span=> #private::core::option::Option::Some(#value));
        field(nth, &self.name, &value, private)
    }
}

fn field(nth: usize, name: &Ident, value: &TokenStream, private: &TokenStream) -> TokenStream {
    let (place, name) = (nth.min(253) as u8, name.unraw().to_string());
    quote_spanned!(Span::mixed_site()=> (#place, #private::name!(#name), #value))
}

impl How {
    fn sign(self, span: Span) -> Option<TokenTree> {
        let sign = match self {
            How::Value => return None,
            How::Display => '%',
            How::Debug => '?',
        };
        let mut sign = proc_macro2::Punct::new(sign, proc_macro2::Spacing::Alone);
        sign.set_span(span);
        Some(sign.into())
    }
}

fn read_arguments(key: &Ident, input: ParseStream<'_>) -> Result<Arguments> {
    if input.peek(Token![=]) {
        return Err(Error::new(
            key.span(),
            "`args` takes no value: write `args`, or `args(name, key = expression)`",
        ));
    }
    if !input.peek(syn::token::Paren) {
        return Ok(Arguments::All);
    }
    let content;
    parenthesized!(content in input);
    let mut chosen = Vec::new();
    while !content.is_empty() {
        chosen.push(Chosen::read(&content)?);
        if content.is_empty() {
            break;
        }
        if !content.peek(Token![,]) {
            return Err(content.error("expected `,` before the next argument"));
        }
        content.parse::<Token![,]>()?;
    }
    match chosen.len() {
        0 => Err(Error::new(
            key.span(),
            "`args()` names nothing: write `args`, or `args(name, key = expression)`",
        )),
        1..=32 => Ok(Arguments::Chosen(chosen)),
        _ => Err(Error::new(key.span(), "`args` takes at most 32 values")),
    }
}

fn read_how_of_result(key: &Ident, otherwise: How, input: ParseStream<'_>) -> Result<How> {
    if !input.peek(Token![=]) && !input.peek(syn::token::Paren) {
        return Ok(otherwise);
    }
    let wrong = || {
        let text = format!("write `{key}`, `{key} = %` for Display, or `{key} = ?` for Debug");
        Error::new(key.span(), text)
    };
    input.parse::<Token![=]>().map_err(|_| wrong())?;
    if input.parse::<Option<Token![%]>>()?.is_some() {
        return Ok(How::Display);
    }
    match input.parse::<Option<Token![?]>>()? {
        Some(_) => Ok(How::Debug),
        None => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;
    use crate::options::Options;

    /// The code of a function's attribute, without the path of the crate.
    fn code(options: &str, function: &str) -> [String; 2] {
        let options = Options::parse(options.parse().expect("tokens")).expect("options");
        let function = Function::parse(function.parse().expect("tokens")).expect("a function");
        options.said.check(&function).expect("a result");
        let code = options.said.code(&function, &quote!(p));
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
            "args(a, k = a + 1, %b, ?c, self_ = ?self, r#in,)",
            "fn f() {}",
        );
        let field = |nth, name, value| {
            format!("({nth}u8,name!(\"{name}\"),core::option::Option::Some(value!({value})))")
        };
        let fields = [
            field(0, "a", "a"),
            field(1, "k", "a+1"),
            field(2, "b", "%b"),
            field(3, "c", "?c"),
            field(4, "self_", "?self"),
            field(5, "in", "r#in"),
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
            let options = Options::parse(options.parse().expect("tokens")).expect("options");
            let function = Function::parse(function.parse().expect("tokens")).expect("a function");
            let message = options
                .said
                .check(&function)
                .expect_err("an error")
                .to_string();
            assert!(message.contains("this function"), "{message}");
        }
    }
}
