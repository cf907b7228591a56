//! The options in `#[traced(…)]`. It must never look at the function. The text between the parentheses is judged alone,
//! and each mistake is reported at its place.

use std::iter::Peekable;
use std::vec::IntoIter;

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};

use crate::arguments::Said;
use crate::error::{Error, Result};
use crate::items::{is_named, is_punct};
use crate::literal::{count_of, text_of};
use crate::params::{group_of, without_groups};
use crate::worth::Rules;

const ACCEPTED: &str = "`#[traced]` takes `untimed`, `name = \"…\"`, `args`, `args(…)`, `ret`, `err`, `crate = path`, `always` and `skip`; on an `impl`, a trait or a \
     module also `min_statements = n` and `skip_inline`";

/// What a person may say beside `#[traced]`.
#[derive(Clone, Default)]
pub(crate) struct Options {
    /// The name to use in traces, in place of the function's path.
    pub(crate) name: Option<String>,
    /// Where the crate `fdr` is found, if not at `::fdr`.
    pub(crate) krate: Option<TokenStream>,
    /// Records have no times of their own.
    pub(crate) untimed: bool,
    /// Which arguments and results are recorded.
    pub(crate) said: Said,
    /// What a scope leaves out.
    pub(crate) rules: Rules,
    /// Nothing is traced.
    pub(crate) skip: bool,
    /// No person marked this function alone: `cargo fdr` wrote the attribute, or the attribute is on a scope.
    pub(crate) auto: bool,
    /// The first option that only a scope can have, or only a function.
    pub(crate) of_scopes: Option<Ident>,
    pub(crate) of_functions: Option<Ident>,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Options> {
        parse_list(&mut without_groups(tokens).into_iter().peekable())
    }
}

/// The tokens that are not read yet.
pub(crate) type Input = Peekable<IntoIter<TokenTree>>;

fn parse_list(input: &mut Input) -> Result<Options> {
    let mut options = Options::default();
    let mut skip = None;
    let mut count = 0;
    while let Some(token) = input.next() {
        let TokenTree::Ident(key) = token else {
            let text = format!("expected an option: {ACCEPTED}");
            return Err(Error::new(token.span(), text));
        };
        match key.to_string().as_str() {
            "name" => {
                set(&mut options.name, &key, input, parse_name)?;
                options.of_functions.get_or_insert(key);
            }
            "args" | "ret" | "err" => {
                if !options.said.read(&key, input)? {
                    return Err(twice(&key));
                }
                options.of_functions.get_or_insert(key);
            }
            "crate" => set(&mut options.krate, &key, input, parse_path)?,
            "untimed" => set_word(&mut options.untimed, &key, input)?,
            "always" => set_word(&mut options.rules.always, &key, input)?,
            "auto" => set_word(&mut options.auto, &key, input)?,
            "skip" => {
                set_word(&mut options.skip, &key, input)?;
                skip = Some(key);
            }
            "skip_inline" => {
                set_word(&mut options.rules.skip_inline, &key, input)?;
                options.of_scopes.get_or_insert(key);
            }
            "min_statements" => {
                set(&mut options.rules.min_statements, &key, input, parse_count)?;
                options.of_scopes.get_or_insert(key);
            }
            _ => {
                return Err(Error::new(
                    key.span(),
                    format!("unknown option `{key}`: {ACCEPTED}"),
                ));
            }
        }
        count += 1;
        if let Some(comma) = input.next().filter(|token| !is_punct(Some(token), ',')) {
            let text = "expected `,` before the next option";
            return Err(Error::new(comma.span(), text));
        }
    }
    if let (Some(skip), 2..) = (skip, count) {
        return Err(Error::new(
            skip.span(),
            "`skip` stands alone: nothing is traced, so no other option has a meaning",
        ));
    }
    if let (true, Some(rule)) = (options.rules.always, &options.of_scopes) {
        return Err(Error::new(
            rule.span(),
            format!("`{rule}` leaves functions out, and `always` leaves none out: remove one"),
        ));
    }
    Ok(options)
}

fn twice(key: &Ident) -> Error {
    Error::new(
        key.span(),
        format!("option `{key}` is given twice: remove one"),
    )
}

fn set_word(word: &mut bool, key: &Ident, input: &mut Input) -> Result<()> {
    if *word {
        return Err(twice(key));
    }
    let next = input.peek();
    let has_arguments = next.is_some_and(|token| group_of(token, Delimiter::Parenthesis).is_some());
    if is_punct(next, '=') || has_arguments {
        let otherwise = if is_named(key, "untimed") {
            " to have times"
        } else {
            ""
        };
        return Err(Error::new(
            key.span(),
            format!("`{key}` takes no value: write `{key}`, or leave it out{otherwise}"),
        ));
    }
    *word = true;
    Ok(())
}

fn set<T>(
    slot: &mut Option<T>,
    key: &Ident,
    input: &mut Input,
    parse_value: fn(Span, &mut Input) -> Result<T>,
) -> Result<()> {
    if slot.is_some() {
        return Err(twice(key));
    }
    if !is_punct(input.peek(), '=') {
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
    input.next();
    // Where a mistake in the value is: at the value, if there is one.
    let at = input.peek().map_or(key.span(), TokenTree::span);
    *slot = Some(parse_value(at, input)?);
    Ok(())
}

fn parse_name(at: Span, input: &mut Input) -> Result<String> {
    let name = match input.next() {
        Some(TokenTree::Literal(literal)) => text_of(&literal),
        _ => None,
    };
    let Some(name) = name else {
        return Err(Error::new(
            at,
            "`name` takes a string literal: the name that traces show, as in `name = \"parse\"`",
        ));
    };
    if name.trim().is_empty() {
        return Err(Error::new(
            at,
            "`name` is empty: give a name, or leave the option out to use the function's path",
        ));
    }
    if name.contains(char::is_control) {
        return Err(Error::new(
            at,
            "`name` holds a control character: reports show one function per line, use plain text",
        ));
    }
    Ok(name)
}

fn parse_count(at: Span, input: &mut Input) -> Result<usize> {
    let count = match input.next() {
        Some(TokenTree::Literal(literal)) => count_of(&literal),
        _ => None,
    };
    count.ok_or_else(|| {
        Error::new(
            at,
            "`min_statements` takes a number: functions of fewer statements are left out, as in `min_statements = 5`",
        )
    })
}

/// Names with `::` between them, and perhaps before them.
fn parse_path(at: Span, input: &mut Input) -> Result<TokenStream> {
    let wrong = || {
        Error::new(
            at,
            "`crate` takes the path under which this crate sees `fdr`, without quotes, as in `crate = crate::reexports::fdr`",
        )
    };
    let mut path = TokenStream::new();
    let mut is_first = true;
    while is_first || is_punct(input.peek(), ':') {
        if is_punct(input.peek(), ':') {
            for _ in 0..2 {
                let colon = input.next_if(|token| is_punct(Some(token), ':'));
                path.extend([colon.ok_or_else(wrong)?]);
            }
        }
        let name = input.next_if(|token| matches!(token, TokenTree::Ident(_)));
        path.extend([name.ok_or_else(wrong)?]);
        is_first = false;
    }
    Ok(path)
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
        assert_eq!(all.krate.expect("a path").to_string(), ":: a :: b");
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
