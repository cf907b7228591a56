//! The blocks of a metadata text: `trace`, `env`, `clock`, `stream`, `event`. Unused parts of a block are
//! skipped. A necessary part that this reader does not understand is an error with its line; it must never
//! be skipped.

use super::lexer::{Bad, Token};
use super::parser::Parser;
use super::scalars::byte_order;
use super::types::{Clock, Event, Metadata, Stream, Type, Value};
use crate::bytes::ByteOrder;

/// The value of an assignment in a block.
enum AssignedValue {
    Value(Value),
    Type(Type),
}

/// An error, with its line and byte offset.
#[derive(Debug)]
pub(in super::super) struct BadText {
    pub(in super::super) line: u32,
    pub(in super::super) offset: usize,
    pub(in super::super) what: String,
}

/// Reads a whole text.
pub(in super::super) fn parse(text: &str) -> Result<Metadata, BadText> {
    let mut parser = Parser::new(text);
    blocks(&mut parser).map_err(|what| {
        let (line, offset) = parser.place();
        BadText { line, offset, what }
    })
}

fn blocks(parser: &mut Parser<'_>) -> Result<Metadata, Bad> {
    let mut metadata = Metadata {
        order: ByteOrder::Little,
        uuid: None,
        packet_header: None,
        env: Vec::new(),
        clocks: Vec::new(),
        streams: Vec::new(),
        events: Vec::new(),
    };
    let mut has_trace = false;
    parser.advance()?;
    loop {
        match parser.token {
            Token::End => break,
            Token::Sign(";") => {
                parser.advance()?;
            }
            Token::Word(word) => match word {
                "trace" => {
                    block(parser, |key, given| trace(&mut metadata, key, given))?;
                    has_trace = true;
                }
                "env" => block(parser, |key, given| {
                    if let AssignedValue::Value(value) = given {
                        metadata.env.push((key.to_owned(), value));
                    }
                    Ok(())
                })?,
                "clock" => {
                    let mut made = Clock::default();
                    block(parser, |key, given| clock(&mut made, key, given))?;
                    metadata.clocks.push(made);
                }
                "stream" => {
                    let mut made = Stream::default();
                    block(parser, |key, given| stream(&mut made, key, given))?;
                    metadata.streams.push(made);
                }
                "event" => {
                    let mut made = Event::default();
                    block(parser, |key, given| event(&mut made, key, given))?;
                    metadata.events.push(made);
                }
                "callsite" => block(parser, |_, _| Ok(()))?,
                _ => {
                    if !parser.type_declaration()? {
                        // `struct name { … };` is declared during its reading.
                        parser.whole_type()?;
                        parser.expect(";")?;
                    }
                }
            },
            _ => {
                return Err(format!(
                    "a declaration is wanted here, not {}",
                    parser.token_in_words()
                ));
            }
        }
    }
    if !has_trace {
        return Err("the metadata has no `trace` block".into());
    }
    Ok(metadata)
}

/// `word { key = value; key := type; … };`
fn block(
    parser: &mut Parser<'_>,
    mut take: impl FnMut(&str, AssignedValue) -> Result<(), Bad>,
) -> Result<(), Bad> {
    parser.advance()?;
    parser.expect("{")?;
    parser.scopes.push(Default::default());
    while !parser.take("}")? {
        if parser.type_declaration()? {
            continue;
        }
        if matches!(parser.token, Token::Word("struct" | "enum" | "variant")) {
            parser.whole_type()?;
            parser.expect(";")?;
            continue;
        }
        let key = parser.path()?;
        let given = if parser.take(":=")? {
            AssignedValue::Type(parser.whole_type()?)
        } else {
            parser.expect("=")?;
            AssignedValue::Value(parser.value()?)
        };
        take(&key, given)?;
        parser.expect(";")?;
    }
    parser.scopes.pop();
    parser.take(";")?;
    Ok(())
}

fn trace(metadata: &mut Metadata, key: &str, given: AssignedValue) -> Result<(), Bad> {
    match (key, given) {
        ("major", AssignedValue::Value(Value::Number(1))) => {}
        ("major", _) => return Err("only major version 1 of the format is known".into()),
        ("byte_order", AssignedValue::Value(value)) => {
            let order = byte_order(&value)?;
            metadata.order = order.ok_or("the trace's byte order is le or be")?;
        }
        ("uuid", AssignedValue::Value(Value::Text(text))) => {
            let uuid = uuid(&text).ok_or("the trace's UUID is none")?;
            metadata.uuid = Some(uuid);
        }
        ("packet.header", AssignedValue::Type(kind)) => metadata.packet_header = Some(kind),
        _ => {}
    }
    Ok(())
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let digits = std::str::from_utf8(&digits)
        .ok()
        .filter(|digits| digits.len() == 32)?;
    Some(u128::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

fn clock(clock: &mut Clock, key: &str, given: AssignedValue) -> Result<(), Bad> {
    let AssignedValue::Value(value) = given else {
        return Ok(());
    };
    let small = |number: i128| {
        i64::try_from(number).map_err(|_| "a clock's offset has 64 bits, with sign".to_owned())
    };
    match (key, value) {
        ("name", Value::Text(name) | Value::Path(name)) => clock.name = name,
        ("description", Value::Text(text)) => clock.description = text,
        ("freq", Value::Number(frequency)) => {
            let frequency = u64::try_from(frequency)
                .ok()
                .filter(|frequency| *frequency > 0);
            clock.frequency = Some(frequency.ok_or("a clock's freq is above 0 Hz")?);
        }
        ("offset_s", Value::Number(seconds)) => clock.offset_seconds = small(seconds)?,
        ("offset", Value::Number(ticks)) => clock.offset = small(ticks)?,
        _ => {}
    }
    Ok(())
}

fn stream(stream: &mut Stream, key: &str, given: AssignedValue) -> Result<(), Bad> {
    match (key, given) {
        ("id", AssignedValue::Value(value)) => stream.id = id(&value)?,
        ("event.header", AssignedValue::Type(kind)) => stream.event_header = Some(kind),
        ("packet.context", AssignedValue::Type(kind)) => stream.packet_context = Some(kind),
        ("event.context", AssignedValue::Type(kind)) => stream.event_context = Some(kind),
        _ => {}
    }
    Ok(())
}

fn event(event: &mut Event, key: &str, given: AssignedValue) -> Result<(), Bad> {
    match (key, given) {
        ("name", AssignedValue::Value(Value::Text(name) | Value::Path(name))) => event.name = name,
        ("id", AssignedValue::Value(value)) => event.id = id(&value)?,
        ("stream_id", AssignedValue::Value(value)) => event.stream = id(&value)?,
        ("context", AssignedValue::Type(kind)) => event.context = Some(kind),
        ("fields", AssignedValue::Type(kind)) => event.fields = Some(kind),
        _ => {}
    }
    Ok(())
}

fn id(value: &Value) -> Result<u64, Bad> {
    match value {
        Value::Number(number) => u64::try_from(*number).ok(),
        _ => None,
    }
    .ok_or_else(|| "an id is a number, not below 0".to_owned())
}
