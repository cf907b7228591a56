//! A workload of the parser library winnow: it parses a generated JSON text a number of times. `cargo xtask bench
//! whole` builds it beside the library's sources.

use std::fmt::Write;

use winnow::ascii::float;
use winnow::combinator::{
    alt, cut_err, delimited, dispatch, fail, peek, preceded, separated, separated_pair, terminated,
};
use winnow::prelude::*;
use winnow::token::{any, none_of, take_while};

#[derive(Clone)]
enum Json {
    Null,
    Boolean(bool),
    Number(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

fn main() {
    let times: u32 = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number of times");
    let text = document();
    let mut sum = 0.0;
    for _ in 0..times {
        let value = document_parser
            .parse(&text)
            .unwrap_or_else(|error| panic!("{error}"));
        sum += weight(&value);
    }
    println!("{} bytes, {sum}", text.len());
}

fn document() -> String {
    let mut text = "[".to_owned();
    for number in 0..2000 {
        let comma = if number == 0 { "" } else { ", " };
        let _ = write!(
            text,
            "{comma}{{\"id\": {number}, \"name\": \"n\\\"{number}\", \"tags\": [\"a\", \"b\", null], \"at\": {{\"x\": {}.5, \"ok\": true}}}}",
            number * 3
        );
    }
    text + "]"
}

fn weight(value: &Json) -> f64 {
    match value {
        Json::Null => 1.0,
        Json::Boolean(value) => f64::from(u8::from(*value)),
        Json::Number(value) => *value,
        Json::Text(text) => text.len() as f64,
        Json::Array(values) => values.iter().map(weight).sum(),
        Json::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() as f64 + weight(value))
            .sum(),
    }
}

fn space<'a>(input: &mut &'a str) -> ModalResult<&'a str> {
    take_while(0.., [' ', '\t', '\n', '\r']).parse_next(input)
}

fn document_parser(input: &mut &str) -> ModalResult<Json> {
    delimited(space, value, space).parse_next(input)
}

fn value(input: &mut &str) -> ModalResult<Json> {
    dispatch!(peek(any);
        'n' => "null".value(Json::Null),
        't' => "true".value(Json::Boolean(true)),
        'f' => "false".value(Json::Boolean(false)),
        '"' => text.map(Json::Text),
        '[' => array.map(Json::Array),
        '{' => object.map(Json::Object),
        '-' | '0'..='9' => float.map(Json::Number),
        _ => fail,
    )
    .parse_next(input)
}

fn text(input: &mut &str) -> ModalResult<String> {
    let character = alt((none_of(['"', '\\']), preceded('\\', any)));
    let characters =
        winnow::combinator::repeat(0.., character).fold(String::new, |mut text, next| {
            text.push(next);
            text
        });
    preceded('"', cut_err(terminated(characters, '"'))).parse_next(input)
}

fn array(input: &mut &str) -> ModalResult<Vec<Json>> {
    let values = separated(0.., delimited(space, value, space), ',');
    preceded('[', cut_err(terminated(values, ']'))).parse_next(input)
}

fn object(input: &mut &str) -> ModalResult<Vec<(String, Json)>> {
    let pair = separated_pair(
        delimited(space, text, space),
        ':',
        delimited(space, value, space),
    );
    let pairs = separated(0.., pair, ',');
    preceded('{', cut_err(terminated(pairs, '}'))).parse_next(input)
}
