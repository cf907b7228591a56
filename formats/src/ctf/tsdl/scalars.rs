//! Numbers: `integer { … }` and `floating_point { … }`, of their attributes.

use super::lexer::Bad;
use super::types::{Float, Integer, Type, Value};
use crate::bytes::ByteOrder;

/// The largest alignment in use, in bits.
const MAX_ALIGNMENT: u32 = 4096;

/// `integer { … }` of these attributes.
pub(super) fn integer(attributes: &[(String, Value)]) -> Result<Type, Bad> {
    let mut integer = Integer {
        size: 0,
        align: 0,
        signed: false,
        order: None,
        base: 10,
        text: false,
        clock: None,
    };
    for (key, value) in attributes {
        match (&**key, value) {
            ("size", Value::Number(size @ 1..=64)) => integer.size = *size as u32,
            ("size", _) => return Err("an integer has a size of 1 to 64 bits".into()),
            ("align", _) => integer.align = alignment(value)?,
            ("signed", _) => integer.signed = truth(value)?,
            ("byte_order", _) => integer.order = byte_order(value)?,
            ("base", _) => integer.base = base(value),
            ("encoding", _) => integer.text = encoded(value),
            ("map", Value::Path(path)) => {
                let clock = path.strip_prefix("clock.").unwrap_or(path);
                let clock = clock.strip_suffix(".value").unwrap_or(clock);
                integer.clock = Some(clock.to_owned());
            }
            // An unknown attribute does not affect the bytes.
            _ => {}
        }
    }
    if integer.size == 0 {
        return Err("an integer without a size".into());
    }
    if integer.align == 0 {
        integer.align = if integer.size % 8 == 0 { 8 } else { 1 };
    }
    Ok(Type::Integer(integer))
}

/// `floating_point { … }` of these attributes.
pub(super) fn float(attributes: &[(String, Value)]) -> Result<Type, Bad> {
    let (mut exponent, mut mantissa, mut align, mut order) = (0, 0, 8, None);
    for (key, value) in attributes {
        match (&**key, value) {
            ("exp_dig", Value::Number(bits)) => exponent = *bits,
            ("mant_dig", Value::Number(bits)) => mantissa = *bits,
            ("align", _) => align = alignment(value)?,
            ("byte_order", _) => order = byte_order(value)?,
            _ => {}
        }
    }
    let size = match (exponent, mantissa) {
        (8, 24) => 32,
        (11, 53) => 64,
        _ => {
            let what = "floating-point numbers have exp_dig 8 and mant_dig 24, or 11 and 53";
            return Err(format!("{what}; not {exponent} and {mantissa}"));
        }
    };
    Ok(Type::Float(Float { size, align, order }))
}

pub(super) fn alignment(value: &Value) -> Result<u32, Bad> {
    match value {
        Value::Number(align) => u32::try_from(*align).ok(),
        _ => None,
    }
    .filter(|align| align.is_power_of_two() && *align <= MAX_ALIGNMENT)
    .ok_or_else(|| format!("an alignment is a power of two of at most {MAX_ALIGNMENT} bits"))
}

fn truth(value: &Value) -> Result<bool, Bad> {
    match value {
        Value::Number(number) => Ok(*number != 0),
        Value::Path(word) if matches!(&**word, "true" | "TRUE") => Ok(true),
        Value::Path(word) if matches!(&**word, "false" | "FALSE") => Ok(false),
        _ => Err("`signed` is true or false".into()),
    }
}

/// `None`: the trace's own.
pub(super) fn byte_order(value: &Value) -> Result<Option<ByteOrder>, Bad> {
    match value {
        Value::Path(word) if word == "le" => Ok(Some(ByteOrder::Little)),
        Value::Path(word) if matches!(&**word, "be" | "network") => Ok(Some(ByteOrder::Big)),
        Value::Path(word) if word == "native" => Ok(None),
        _ => Err("a byte order is le, be, network or native".into()),
    }
}

fn base(value: &Value) -> u32 {
    match value {
        Value::Number(base @ (2 | 8 | 16)) => *base as u32,
        Value::Path(word) => match &**word {
            "hexadecimal" | "hex" | "x" | "X" | "p" => 16,
            "octal" | "oct" | "o" => 8,
            "binary" | "b" => 2,
            _ => 10,
        },
        _ => 10,
    }
}

fn encoded(value: &Value) -> bool {
    let (Value::Path(word) | Value::Text(word)) = value else {
        return false;
    };
    matches!(&*word.to_ascii_uppercase(), "UTF8" | "UTF_8" | "ASCII")
}
