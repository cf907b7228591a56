//! Arguments and results of calls: what the options `args`, `ret` and `err` say, and the code that records it. It must
//! never record what nobody asked for, and `args` alone records no text. The code names nothing but `fdr::private`, its
//! own variables, and what a person wrote.

use proc_macro2::{Delimiter, Ident, Punct, Spacing, Span, TokenStream, TokenTree};

use crate::code::code;
use crate::error::{Error, Result};
use crate::items::{is_named, is_punct};
use crate::options::Input;
use crate::params::{bound, group_of, without_groups};
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
    value: TokenStream,
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
    pub(crate) fn read(&mut self, key: &Ident, input: &mut Input) -> Result<bool> {
        if is_named(key, "args") {
            let arguments = read_arguments(key, input)?;
            return Ok(self.arguments.replace(arguments).is_none());
        }
        let (slot, otherwise) = match is_named(key, "ret") {
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
        let span = Span::mixed_site();
        let listed = arguments.into_iter();
        let listed = listed.reduce(|list, argument| code!(span=> #list, #argument));
        let arguments = listed.map(|list| code!(span=> #private::arguments(__fdr_site, &[#list]);));
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
            let value = code!(span=> #private::value!(#sign #variable));
            code!(span=> #private::result(__fdr_site, #private::#place, #value);)
        };
        let result = |variable| Some(record(self.result.as_ref()?, "RESULT", variable));
        let Some(error) = &self.error else {
            return result("__fdr_result");
        };
        let span = Span::mixed_site().located_at(error.0.span());
        let value = result("__fdr_value");
        let error = record(error, "ERROR", "__fdr_error");
        let results = code!(span=> #private::core::result::Result);
        Some(match value {
            None => code! {span=>
                if let #results::Err(__fdr_error) = &__fdr_result { #error }
            },
            Some(value) => code! {span=>
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
    let is_taken = |name: &Ident| !is_named(name, "self") && !name.to_string().starts_with('_');
    let names = names.iter().filter(|binding| is_taken(&binding.name));
    let field = |nth: usize, name: &Ident| {
        let value = code!(Span::mixed_site()=> #private::ValueOf(&#name).value());
        field(nth, name, &value, private)
    };
    names
        .map(|binding| field(binding.nth, &binding.name))
        .collect()
}

impl Chosen {
    /// Reads `[key =] [% or ?] expression`. `at` is where a mistake is if there are no tokens.
    fn read(tokens: &[TokenTree], at: Span) -> Result<Chosen> {
        let at = tokens.first().map_or(at, TokenTree::span);
        let (name, rest) = match tokens {
            [TokenTree::Ident(name), sign, rest @ ..]
                if is_punct(Some(sign), '=') && !is_punct(rest.first(), '=') =>
            {
                (Some(name), rest)
            }
            _ => (None, tokens),
        };
        let how = match rest.first() {
            sign if is_punct(sign, '%') => How::Display,
            sign if is_punct(sign, '?') => How::Debug,
            _ => How::Value,
        };
        let value = match how {
            How::Value => rest,
            _ => &rest[1..],
        };
        let only_name = match value {
            [] => {
                let text = "an argument needs a value: write `name` or `key = expression`";
                return Err(Error::new(at, text));
            }
            [TokenTree::Ident(name)] => Some(name),
            _ => None,
        };
        if let (Some(word), How::Value) = (only_name.filter(|name| is_named(name, "self")), how) {
            let text = "`self` is no value of a field: name a part of it, as in `id = self.id`, or write `?self`";
            return Err(Error::new(word.span(), text));
        }
        let Some(name) = name.or(only_name) else {
            let text = "an expression needs a name: write `key = expression`";
            return Err(Error::new(at, text));
        };
        Ok(Chosen {
            name: name.clone(),
            how,
            value: value.iter().cloned().collect(),
        })
    }

    fn field(&self, nth: usize, private: &TokenStream) -> TokenStream {
        let span = Span::mixed_site();
        let (sign, value) = (self.how.sign(span), &self.value);
        let value = code!(span=> #private::value!(#sign #value));
        let value = code!(span=> #private::core::option::Option::Some(#value));
        field(nth, &self.name, &value, private)
    }
}

fn field(nth: usize, name: &Ident, value: &TokenStream, private: &TokenStream) -> TokenStream {
    let (place, name) = (nth.min(253) as u8, name.to_string());
    let name = name.strip_prefix("r#").unwrap_or(&name);
    code!(Span::mixed_site()=> (#place, #private::name!(#name), #value))
}

impl How {
    fn sign(self, span: Span) -> Option<TokenTree> {
        let sign = match self {
            How::Value => return None,
            How::Display => '%',
            How::Debug => '?',
        };
        let mut sign = Punct::new(sign, Spacing::Alone);
        sign.set_span(span);
        Some(sign.into())
    }
}

fn read_arguments(key: &Ident, input: &mut Input) -> Result<Arguments> {
    let wrong = |what: &str| {
        let text = format!("{what}: write `args`, or `args(name, key = expression)`");
        Error::new(key.span(), text)
    };
    if is_punct(input.peek(), '=') {
        return Err(wrong("`args` takes no value"));
    }
    let listed = input
        .peek()
        .and_then(|token| group_of(token, Delimiter::Parenthesis));
    let Some(listed) = listed else {
        return Ok(Arguments::All);
    };
    input.next();
    let tokens = without_groups(listed);
    let mut parts: Vec<&[TokenTree]> = split(&tokens);
    // Behind the last comma.
    if parts.last().is_some_and(|part| part.is_empty()) {
        parts.pop();
    }
    match parts.len() {
        0 => Err(wrong("`args()` names nothing")),
        1..=32 => {
            let chosen = parts.iter().map(|part| Chosen::read(part, key.span()));
            Ok(Arguments::Chosen(chosen.collect::<Result<_>>()?))
        }
        _ => Err(Error::new(key.span(), "`args` takes at most 32 values")),
    }
}

/// The parts between commas. A comma inside of `::<…>` is none of these.
fn split(tokens: &[TokenTree]) -> Vec<&[TokenTree]> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        if is_punct(Some(token), '<') && (depth > 0 || is_punct(before, ':')) {
            depth += 1;
        } else if is_punct(Some(token), '>') && !is_punct(before, '-') {
            depth = depth.saturating_sub(1);
        } else if is_punct(Some(token), ',') && depth == 0 {
            parts.push(&tokens[start..at]);
            start = at + 1;
        }
    }
    parts.push(&tokens[start..]);
    parts
}

fn read_how_of_result(key: &Ident, otherwise: How, input: &mut Input) -> Result<How> {
    let next = input.peek();
    let has_list = next.is_some_and(|token| group_of(token, Delimiter::Parenthesis).is_some());
    if !is_punct(next, '=') && !has_list {
        return Ok(otherwise);
    }
    input.next();
    let sign = input.next().filter(|_| !has_list);
    match sign {
        sign if is_punct(sign.as_ref(), '%') => Ok(How::Display),
        sign if is_punct(sign.as_ref(), '?') => Ok(How::Debug),
        _ => {
            let text = format!("write `{key}`, `{key} = %` for Display, or `{key} = ?` for Debug");
            Err(Error::new(key.span(), text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    /// The code of a function's attribute, without the path of the crate.
    fn code(options: &str, function: &str) -> [String; 2] {
        let options = Options::parse(options.parse().expect("tokens")).expect("options");
        let function = Function::parse(function.parse().expect("tokens")).expect("a function");
        options.said.check(&function).expect("a result");
        let code = options.said.code(&function, &code!(Span::call_site()=> p));
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
