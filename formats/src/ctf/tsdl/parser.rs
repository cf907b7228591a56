//! Types of a metadata text: `integer { … }`, `struct { … }`, names given by `typealias` and `typedef`, and fields of
//! these types. Deeper nesting and such numbers are errors that name the line.

use std::collections::HashMap;
use std::sync::Arc;

use super::lexer::{Bad, Lexer, Token};
use super::scalars;
use super::types::{Count, Field, Label, Type, Value};

/// Types inside types, at most.
const DEPTH: u32 = 32;

/// A type, or words that may be the names of a type and a field.
enum Specifier<'a> {
    Type(Type),
    Words(Vec<&'a str>),
}

/// Reads declarations; `blocks` reads the blocks around them.
pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(super) token: Token<'a>,
    /// Names of types, the innermost block last.
    pub(super) scopes: Vec<HashMap<String, Type>>,
    depth: u32,
}

impl<'a> Parser<'a> {
    /// Before the first token.
    pub(super) fn new(text: &'a str) -> Parser<'a> {
        Parser {
            lexer: Lexer::new(text),
            token: Token::End,
            scopes: vec![HashMap::new()],
            depth: 0,
        }
    }

    /// Line and byte offset of the last token.
    pub(super) fn place(&self) -> (u32, usize) {
        (self.lexer.line(), self.lexer.offset())
    }

    pub(super) fn advance(&mut self) -> Result<Token<'a>, Bad> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// Takes a sign if it is the next token.
    pub(super) fn take(&mut self, sign: &str) -> Result<bool, Bad> {
        let found = matches!(self.token, Token::Sign(found) if found == sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect(&mut self, sign: &str) -> Result<(), Bad> {
        if self.take(sign)? {
            return Ok(());
        }
        Err(format!(
            "`{sign}` is wanted here, not {}",
            self.token_in_words()
        ))
    }

    /// The next token, for people.
    pub(super) fn token_in_words(&self) -> String {
        match &self.token {
            Token::Word(word) => format!("`{word:.60}`"),
            Token::Number(number) => format!("`{number}`"),
            Token::Text(text) => format!("{text:.60?}"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end of the metadata".into(),
        }
    }

    pub(super) fn word(&mut self) -> Result<&'a str, Bad> {
        match self.token {
            Token::Word(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => Err(format!(
                "a name is wanted here, not {}",
                self.token_in_words()
            )),
        }
    }

    /// `a.b.c`, joined.
    pub(super) fn path(&mut self) -> Result<String, Bad> {
        let mut path = self.word()?.to_owned();
        while self.take(".")? {
            path.push('.');
            path.push_str(self.word()?);
        }
        Ok(path)
    }

    pub(super) fn value(&mut self) -> Result<Value, Bad> {
        let negative = self.take("-")?;
        if !negative {
            self.take("+")?;
        }
        match &self.token {
            Token::Number(number) => {
                let number = i128::from(*number);
                self.advance()?;
                Ok(Value::Number(if negative { -number } else { number }))
            }
            Token::Text(text) if !negative => {
                let text = text.clone();
                self.advance()?;
                Ok(Value::Text(text))
            }
            Token::Word(_) if !negative => self.path().map(Value::Path),
            _ => Err(format!(
                "a value is wanted here, not {}",
                self.token_in_words()
            )),
        }
    }

    /// `{ key = value; … }`
    pub(super) fn attributes(&mut self) -> Result<Vec<(String, Value)>, Bad> {
        let mut list = Vec::new();
        self.expect("{")?;
        while !self.take("}")? {
            let key = self.path()?;
            self.expect("=")?;
            list.push((key, self.value()?));
            self.expect(";")?;
        }
        Ok(list)
    }

    /// The attributes of the type whose word is the current token.
    fn own_attributes(&mut self) -> Result<Vec<(String, Value)>, Bad> {
        self.advance()?;
        self.attributes()
    }

    fn string(&mut self) -> Result<Type, Bad> {
        self.advance()?;
        if self.token == Token::Sign("{") {
            self.attributes()?;
        }
        Ok(Type::Text)
    }

    fn lookup(&self, name: &str) -> Result<Type, Bad> {
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        let found = found.cloned();
        found.ok_or_else(|| format!("no type `{name:.60}` was declared above"))
    }

    pub(super) fn declare(&mut self, name: String, kind: Type) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, kind);
        }
    }

    /// A type that stands alone: `struct { … }`, `unsigned long`.
    pub(super) fn whole_type(&mut self) -> Result<Type, Bad> {
        match self.specifier()? {
            Specifier::Type(kind) => Ok(kind),
            Specifier::Words(words) => self.lookup(&words.join(" ")),
        }
    }

    fn specifier(&mut self) -> Result<Specifier<'a>, Bad> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(too_deep());
        }
        let Token::Word(first) = self.token else {
            return Err(format!(
                "a type is wanted here, not {}",
                self.token_in_words()
            ));
        };
        let specifier = match first {
            "integer" => Specifier::Type(scalars::integer(&self.own_attributes()?)?),
            "floating_point" => Specifier::Type(scalars::float(&self.own_attributes()?)?),
            "string" => Specifier::Type(self.string()?),
            "enum" => Specifier::Type(self.enumeration()?),
            "struct" => Specifier::Type(self.structure()?),
            "variant" => Specifier::Type(self.variant()?),
            _ => {
                let mut words = Vec::new();
                while let Token::Word(word) = self.token {
                    self.advance()?;
                    if word != "const" {
                        words.push(word);
                    }
                }
                Specifier::Words(words)
            }
        };
        self.depth -= 1;
        Ok(specifier)
    }

    /// A name that may stand between `struct`, `enum`, `variant` and the body.
    fn own_name(&mut self) -> Result<Option<&'a str>, Bad> {
        if let Token::Word(name) = self.token {
            self.advance()?;
            return Ok(Some(name));
        }
        Ok(None)
    }

    fn enumeration(&mut self) -> Result<Type, Bad> {
        self.advance()?;
        let name = self.own_name()?;
        let container = if self.take(":")? {
            Some(self.whole_type()?)
        } else {
            None
        };
        if !self.take("{")? {
            let name = name.ok_or("an enum without a name or a body")?;
            return self.lookup(&format!("enum {name}"));
        }
        let container = match container {
            Some(kind) => kind,
            None => self.lookup("int")?,
        };
        let (Type::Integer(integer) | Type::Enum(integer, _)) = container else {
            return Err("an enum is made of an integer".into());
        };
        let kind = Type::Enum(integer, self.labels()?.into());
        if let Some(name) = name {
            self.declare(format!("enum {name}"), kind.clone());
        }
        Ok(kind)
    }

    fn labels(&mut self) -> Result<Vec<Label>, Bad> {
        let (mut labels, mut next) = (Vec::new(), 0i128);
        while !self.take("}")? {
            let name = match self.advance()? {
                Token::Word(word) => word.to_owned(),
                Token::Text(text) => text,
                _ => return Err("a label of an enum is a name".into()),
            };
            let (mut low, mut high) = (next, next);
            if self.take("=")? {
                (low, high) = match (self.value()?, self.take("...")?) {
                    (Value::Number(low), false) => (low, low),
                    (Value::Number(low), true) => match self.value()? {
                        Value::Number(high) => (low, high),
                        _ => return Err("a label's last value is a number".into()),
                    },
                    _ => return Err("a label's value is a number".into()),
                };
            }
            next = high.saturating_add(1);
            labels.push(Label { name, low, high });
            if !self.take(",")? {
                self.expect("}")?;
                break;
            }
        }
        Ok(labels)
    }

    fn structure(&mut self) -> Result<Type, Bad> {
        self.advance()?;
        let name = self.own_name()?;
        if !self.take("{")? {
            let name = name.ok_or("a struct without a name or a body")?;
            return self.lookup(&format!("struct {name}"));
        }
        let fields: Arc<[Field]> = self.fields()?.into();
        let mut align = 1;
        if matches!(self.token, Token::Word("align")) {
            self.advance()?;
            self.expect("(")?;
            align = scalars::alignment(&self.value()?)?;
            self.expect(")")?;
        }
        let height = above(&fields)?;
        let kind = Type::Struct {
            fields,
            align,
            height,
        };
        if let Some(name) = name {
            self.declare(format!("struct {name}"), kind.clone());
        }
        Ok(kind)
    }

    fn variant(&mut self) -> Result<Type, Bad> {
        self.advance()?;
        let name = self.own_name()?;
        let mut tag = None;
        if self.take("<")? {
            tag = Some(self.path()?);
            self.expect(">")?;
        }
        if !self.take("{")? {
            let name = name.ok_or("a variant without a name or a body")?;
            return match self.lookup(&format!("variant {name}"))? {
                Type::Variant {
                    tag: old,
                    options,
                    height,
                } => Ok(Type::Variant {
                    tag: tag.or(old),
                    options,
                    height,
                }),
                _ => Err(format!("`{name:.60}` is no variant")),
            };
        }
        let options: Arc<[Field]> = self.fields()?.into();
        let height = above(&options)?;
        let kind = Type::Variant {
            tag,
            options,
            height,
        };
        if let Some(name) = name {
            self.declare(format!("variant {name}"), kind.clone());
        }
        Ok(kind)
    }

    /// Fields up to the closing brace, which is taken too.
    fn fields(&mut self) -> Result<Vec<Field>, Bad> {
        self.scopes.push(HashMap::new());
        let mut fields = Vec::new();
        while !self.take("}")? {
            if self.type_declaration()? {
                continue;
            }
            let (base, first) = self.field_type()?;
            let Some(first) = first else {
                // `struct name { … };` inside a struct only declares the name.
                self.expect(";")?;
                continue;
            };
            let mut name = first;
            loop {
                let kind = self.dimensions(base.clone())?;
                fields.push((name.to_owned(), kind));
                if !self.take(",")? {
                    break;
                }
                name = self.word()?;
            }
            self.expect(";")?;
        }
        self.scopes.pop();
        Ok(fields)
    }

    /// A field's type before its name, and its name.
    fn field_type(&mut self) -> Result<(Type, Option<&'a str>), Bad> {
        match self.specifier()? {
            Specifier::Type(kind) => {
                let name = self.own_name()?;
                Ok((kind, name))
            }
            Specifier::Words(mut words) => {
                let name = words.pop();
                Ok((self.lookup(&words.join(" "))?, name))
            }
        }
    }

    /// `[3][ length ]` behind a name.
    fn dimensions(&mut self, base: Type) -> Result<Type, Bad> {
        let mut counts = Vec::new();
        while self.take("[")? {
            if counts.len() as u32 >= DEPTH {
                return Err(too_deep());
            }
            counts.push(match self.value()? {
                Value::Number(count) => {
                    let count = u64::try_from(count);
                    Count::Fixed(count.map_err(|_| "an array of fewer than no elements")?)
                }
                Value::Path(path) => Count::Field(path),
                Value::Text(_) => return Err("an array's length is a number or a field".into()),
            });
            self.expect("]")?;
        }
        let nest = |kind: Type, count| Type::Array {
            height: kind.height() + 1,
            element: Arc::new(kind),
            count,
        };
        let kind = counts.into_iter().rev().fold(base, nest);
        if kind.height() > DEPTH {
            return Err(too_deep());
        }
        Ok(kind)
    }

    /// `typealias` and `typedef`, if one is next.
    pub(super) fn type_declaration(&mut self) -> Result<bool, Bad> {
        match self.token {
            Token::Word("typealias") => {
                self.advance()?;
                let kind = self.whole_type()?;
                self.expect(":=")?;
                let mut words = vec![self.word()?];
                while let Token::Word(word) = self.token {
                    self.advance()?;
                    words.push(word);
                }
                self.expect(";")?;
                self.declare(words.join(" "), kind);
            }
            Token::Word("typedef") => {
                self.advance()?;
                let (base, name) = self.field_type()?;
                let name = name.ok_or("a typedef without a name")?;
                let kind = self.dimensions(base)?;
                self.expect(";")?;
                self.declare(name.to_owned(), kind);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn too_deep() -> Bad {
    format!("types inside types, more than {DEPTH} deep")
}

/// The height of the type tower made of these types.
fn above(fields: &[Field]) -> Result<u32, Bad> {
    let highest = fields.iter().map(|(_, kind)| kind.height()).max();
    let height = highest.unwrap_or(0) + 1;
    if height > DEPTH {
        return Err(too_deep());
    }
    Ok(height)
}
