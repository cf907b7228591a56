//! The options in `#[traced(…)]`. The text between the parentheses is judged alone, and each mistake is reported at its
//! place.

use fdr_marks::worth::Rules;
use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, LitInt, LitStr, Path, Result, Token, token};

use crate::arguments::ValueOptions;

const ACCEPTED: &str = "`#[traced]` takes `untimed`, `name = \"…\"`, `args`, `args(…)`, `ret`, `err`, `crate = path`, `always` and `skip`; on an `impl`, a trait or a \
     module also `min_statements = n` and `skip_inline`";

/// The options of `#[traced]`.
#[derive(Default)]
pub(crate) struct Options {
    /// The name to use in traces, in place of the function's path.
    pub(crate) name: Option<String>,
    /// Where the crate `fdr` is found, if not at `::fdr`.
    pub(crate) krate: Option<Path>,
    /// Records have no times of their own.
    pub(crate) untimed: bool,
    /// Which arguments and results are recorded.
    pub(crate) values: ValueOptions,
    /// The rules by which a scope leaves functions out.
    pub(crate) rules: Rules,
    /// Nothing is traced.
    pub(crate) skip: bool,
    /// An `async fn` may become a `fn` that gives back a future.
    pub(crate) desugars: bool,
    /// No person marked this function alone: `cargo fdr` wrote the attribute, or the attribute is on a scope.
    pub(crate) auto: bool,
    /// The first option that only a scope can have, or only a function.
    pub(crate) of_scopes: Option<Ident>,
    pub(crate) of_functions: Option<Ident>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Options> {
        let mut options = Options::default();
        let mut keys: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            let key = input.call(Ident::parse_any).map_err(|error| {
                Error::new(error.span(), format!("expected an option: {ACCEPTED}"))
            })?;
            if keys.contains(&key) {
                return Err(Error::new(
                    key.span(),
                    format!("option `{key}` is given twice: remove one"),
                ));
            }
            options.parse_option(&key, input)?;
            keys.push(key);
            if !input.is_empty() {
                input.parse::<Token![,]>().map_err(|error| {
                    Error::new(error.span(), "expected `,` before the next option")
                })?;
            }
        }
        options.check(&keys)?;
        Ok(options)
    }
}

impl Options {
    fn parse_option(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        match key.to_string().as_str() {
            "name" => self.name = Some(value(key, input, parse_name)?),
            "args" | "ret" | "err" => self.values.parse_option(key, input)?,
            "crate" => self.krate = Some(value(key, input, parse_path)?),
            "untimed" => self.untimed = word(key, input)?,
            "always" => self.rules.always = word(key, input)?,
            "auto" => self.auto = word(key, input)?,
            "skip" => self.skip = word(key, input)?,
            "skip_inline" => self.rules.skip_inline = word(key, input)?,
            "min_statements" => self.rules.min_statements = Some(value(key, input, parse_count)?),
            _ => {
                return Err(Error::new(
                    key.span(),
                    format!("unknown option `{key}`: {ACCEPTED}"),
                ));
            }
        }
        Ok(())
    }

    /// Refuses options that contradict each other.
    fn check(&mut self, keys: &[Ident]) -> Result<()> {
        let first_of = |names: &[&str]| {
            let mut keys = keys.iter();
            keys.find(|key| names.iter().any(|name| key == name))
                .cloned()
        };
        if let Some(skip) = first_of(&["skip"]).filter(|_| keys.len() > 1) {
            return Err(Error::new(
                skip.span(),
                "`skip` stands alone: nothing is traced, so no other option has a meaning",
            ));
        }
        self.of_functions = first_of(&["name", "args", "ret", "err"]);
        self.of_scopes = first_of(&["skip_inline", "min_statements"]);
        if let (true, Some(rule)) = (self.rules.always, &self.of_scopes) {
            return Err(Error::new(
                rule.span(),
                format!("`{rule}` leaves functions out, and `always` leaves none out: remove one"),
            ));
        }
        Ok(())
    }
}

/// An option without a value.
fn word(key: &Ident, input: ParseStream<'_>) -> Result<bool> {
    if input.peek(Token![=]) || input.peek(token::Paren) {
        let otherwise = if key == "untimed" {
            " to have times"
        } else {
            ""
        };
        return Err(Error::new(
            key.span(),
            format!("`{key}` takes no value: write `{key}`, or leave it out{otherwise}"),
        ));
    }
    Ok(true)
}

/// Parses the value behind an option's `=`.
fn value<T>(
    key: &Ident,
    input: ParseStream<'_>,
    parse: fn(Span, ParseStream<'_>) -> Result<T>,
) -> Result<T> {
    if input.parse::<Option<Token![=]>>()?.is_none() {
        let form = match key.to_string().as_str() {
            "name" => "name = \"…\"",
            "crate" => "crate = path",
            _ => "min_statements = 5",
        };
        return Err(Error::new(
            key.span(),
            format!("option `{key}` needs a value: write `{form}`"),
        ));
    }
    // Where a mistake in the value is: at the value, if there is one.
    let at = if input.is_empty() {
        key.span()
    } else {
        input.span()
    };
    parse(at, input)
}

fn parse_name(at: Span, input: ParseStream<'_>) -> Result<String> {
    let name = input
        .parse::<LitStr>()
        .ok()
        .filter(|name| name.suffix().is_empty());
    let wrong = |text| Err(Error::new(at, text));
    match name.map(|name| name.value()) {
        None => wrong(
            "`name` takes a string literal: the name that traces show, as in `name = \"parse\"`",
        ),
        Some(name) if name.trim().is_empty() => wrong(
            "`name` is empty: give a name, or leave the option out to use the function's path",
        ),
        Some(name) if name.contains(char::is_control) => wrong(
            "`name` holds a control character: reports show one function per line, use plain text",
        ),
        Some(name) => Ok(name),
    }
}

fn parse_count(at: Span, input: ParseStream<'_>) -> Result<usize> {
    let number = input.parse::<LitInt>().ok();
    let number = number.filter(|number| matches!(number.suffix(), "" | "usize"));
    let count = number.and_then(|number| number.base10_parse().ok());
    count.ok_or_else(|| {
        Error::new(
            at,
            "`min_statements` takes a number: functions of fewer statements are left out, as in `min_statements = 5`",
        )
    })
}

fn parse_path(at: Span, input: ParseStream<'_>) -> Result<Path> {
    let path = input.call(Path::parse_mod_style).ok();
    // Behind a path with arguments, or with one colon.
    let goes_on = input.peek(Token![<]) || input.peek(Token![::]) || input.peek(Token![:]);
    path.filter(|_| !goes_on).ok_or_else(|| {
        Error::new(
            at,
            "`crate` takes the path under which this crate sees `fdr`, without quotes, as in `crate = crate::reexports::fdr`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn parse(text: &str) -> Result<Options> {
        syn::parse_str(text)
    }

    fn message(text: &str) -> String {
        parse(text).err().expect("an error").to_string()
    }

    #[test]
    fn nothing_or_all() {
        let none = parse("").expect("no options");
        assert!(none.name.is_none() && none.krate.is_none() && !none.untimed);
        let all = parse("crate = ::a::b, untimed, name = \"n::m\",").expect("all options");
        assert_eq!(all.name.as_deref(), Some("n::m"));
        let krate = all.krate.expect("a path");
        assert_eq!(krate.to_token_stream().to_string(), ":: a :: b");
        assert!(all.untimed);
        assert!(parse("untimed").expect("one option").untimed);
        let scope = parse("auto, min_statements = 3, skip_inline").expect("a scope's options");
        assert!(scope.auto && scope.rules.skip_inline && scope.rules.min_statements == Some(3));
        assert!(parse("skip").expect("one option").skip);
    }

    #[test]
    fn every_mistake_says_what_to_do() {
        for (text, part) in [
            ("nmae = \"x\"", "unknown option `nmae`"),
            ("name = \"a\", name = \"b\"", "given twice"),
            ("crate = a, crate = b", "given twice"),
            ("untimed, untimed", "given twice"),
            ("untimed = true", "takes no value"),
            ("untimed(x)", "takes no value"),
            ("untimed name = \"b\"", "expected `,`"),
            ("name", "write `name = \"…\"`"),
            ("crate", "write `crate = path`"),
            ("name = 3", "string literal"),
            ("name = x", "string literal"),
            ("name =", "string literal"),
            ("name = \" \"", "is empty"),
            ("name = \"a\\nb\"", "control character"),
            ("crate = \"fdr\"", "without quotes"),
            ("crate =", "without quotes"),
            ("crate = a::", "without quotes"),
            ("crate = a:b", "without quotes"),
            ("crate = a::<b>", "without quotes"),
            ("crate = a name = \"b\"", "expected `,`"),
            ("always(x)", "takes no value"),
            ("skip, untimed", "stands alone"),
            ("always, min_statements = 2", "remove one"),
            ("min_statements", "write `min_statements = 5`"),
            ("min_statements =", "takes a number"),
            ("min_statements = many", "takes a number"),
            ("min_statements = -1", "takes a number"),
            ("min_statements = 99999999999999999999999", "takes a number"),
            ("args, args(x)", "given twice"),
            ("args = x", "write `args`"),
            ("args()", "names nothing"),
            ("args(self)", "`self` is no value"),
            ("args(a b)", "needs a name"),
            ("args(a.b)", "needs a name"),
            ("args(a, , b)", "needs a value"),
            ("args(a =)", "needs a value"),
            ("args(%)", "needs a value"),
            ("ret(x)", "`ret = ?`"),
            ("ret = x", "`ret = ?`"),
            ("err = 3", "`err = ?`"),
            ("err, err = ?", "given twice"),
            ("\"x\"", "expected an option"),
            (",", "expected an option"),
        ] {
            assert!(message(text).contains(part), "{text}: {}", message(text));
        }
    }
}
