//! The options in `#[traced(…)]`. It must never look at the function. The text between the parentheses is judged alone,
//! and each mistake is reported at its place.

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Lit, Path, Result, Token};

const ACCEPTED: &str = "`#[traced]` takes `untimed`, `name = \"…\"` and `crate = path`";

/// What a person may say beside `#[traced]`.
#[derive(Default)]
pub(crate) struct Options {
    /// The name to use in traces, in place of the function's path.
    pub(crate) name: Option<String>,
    /// Where the crate `fdr` is found, if not at `::fdr`.
    pub(crate) krate: Option<Path>,
    /// Records have no times of their own.
    pub(crate) untimed: bool,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Options> {
        Parser::parse2(parse_list, tokens)
    }
}

fn parse_list(input: ParseStream<'_>) -> Result<Options> {
    let mut options = Options::default();
    while !input.is_empty() {
        if !input.peek(syn::Ident::peek_any) {
            return Err(input.error(format!("expected an option: {ACCEPTED}")));
        }
        let key = input.call(Ident::parse_any)?;
        match key.to_string().as_str() {
            "name" => set(&mut options.name, &key, input, parse_name)?,
            "crate" => set(&mut options.krate, &key, input, parse_path)?,
            "untimed" => set_untimed(&mut options.untimed, &key, input)?,
            _ => {
                return Err(Error::new(
                    key.span(),
                    format!("unknown option `{key}`: {ACCEPTED}"),
                ));
            }
        }
        if input.is_empty() {
            break;
        }
        if !input.peek(Token![,]) {
            return Err(input.error("expected `,` before the next option"));
        }
        input.parse::<Token![,]>()?;
    }
    Ok(options)
}

fn twice(key: &Ident) -> Error {
    Error::new(
        key.span(),
        format!("option `{key}` is given twice: remove one"),
    )
}

fn set_untimed(untimed: &mut bool, key: &Ident, input: ParseStream<'_>) -> Result<()> {
    if *untimed {
        return Err(twice(key));
    }
    if input.peek(Token![=]) || input.peek(syn::token::Paren) {
        return Err(Error::new(
            key.span(),
            "`untimed` takes no value: write `untimed`, or leave it out to have times",
        ));
    }
    *untimed = true;
    Ok(())
}

fn set<T>(
    slot: &mut Option<T>,
    key: &Ident,
    input: ParseStream<'_>,
    parse_value: fn(&Ident, ParseStream<'_>) -> Result<T>,
) -> Result<()> {
    if slot.is_some() {
        return Err(twice(key));
    }
    if !input.peek(Token![=]) {
        let form = if key == "name" {
            "name = \"…\""
        } else {
            "crate = path"
        };
        return Err(Error::new(
            key.span(),
            format!("option `{key}` needs a value: write `{form}`"),
        ));
    }
    input.parse::<Token![=]>()?;
    *slot = Some(parse_value(key, input)?);
    Ok(())
}

fn parse_name(key: &Ident, input: ParseStream<'_>) -> Result<String> {
    let wrong = |span: Span| {
        Error::new(
            span,
            "`name` takes a string literal: the name that traces show, as in `name = \"parse\"`",
        )
    };
    if input.is_empty() {
        return Err(wrong(key.span()));
    }
    let span = input.span();
    let Ok(Lit::Str(literal)) = input.parse::<Lit>() else {
        return Err(wrong(span));
    };
    let name = literal.value();
    if name.trim().is_empty() {
        return Err(Error::new(
            span,
            "`name` is empty: give a name, or leave the option out to use the function's path",
        ));
    }
    if name.contains(char::is_control) {
        return Err(Error::new(
            span,
            "`name` holds a control character: reports show one function per line, use plain text",
        ));
    }
    Ok(name)
}

fn parse_path(key: &Ident, input: ParseStream<'_>) -> Result<Path> {
    let wrong = |span: Span| {
        Error::new(
            span,
            "`crate` takes the path under which this crate sees `fdr`, without quotes, as in `crate = crate::reexports::fdr`",
        )
    };
    if input.is_empty() {
        return Err(wrong(key.span()));
    }
    let span = input.span();
    input.call(Path::parse_mod_style).map_err(|_| wrong(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options> {
        Options::parse(text.parse().expect("tokens"))
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
        assert_eq!(all.krate.expect("a path").segments.len(), 2);
        assert!(all.untimed);
        assert!(parse("untimed").expect("one option").untimed);
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
            ("crate = a name = \"b\"", "expected `,`"),
            ("\"x\"", "expected an option"),
            (",", "expected an option"),
        ] {
            assert!(message(text).contains(part), "{text}: {}", message(text));
        }
    }
}
