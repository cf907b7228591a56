//! types.json, tree.json and state.json, written: what belongs to a key. Their shapes are those of the
//! proposal. Must never hold a whole file.
//!
//! ```text
//! types.json  [{"key":0,"type":"none"},…]
//! tree.json   {"version":{"major":1,"minor":0},"root":{"key":0,"children":{"Threads":{"key":1,…}}}}
//! state.json  [{"key":0,"value":null},…]    every key: its value at the time in meta.json
//! ```

use std::io::{self, Write};

use super::engine::{Attribute, Name};
use super::layout::Value;
use crate::json::push_text;

/// Writes types.json.
pub(super) fn write_types(out: &mut dyn Write, attributes: &[Attribute]) -> io::Result<()> {
    out.write_all(b"[")?;
    for (key, attribute) in attributes.iter().enumerate() {
        let comma = if key == 0 { "" } else { "," };
        let kind = attribute.kind.name();
        write!(out, "{comma}\n{{\"key\":{key},\"type\":\"{kind}\"}}")?;
    }
    out.write_all(b"\n]\n")
}

/// Writes state.json; `text` gives the string of a number.
pub(super) fn write_state<'a>(
    out: &mut dyn Write,
    attributes: &[Attribute],
    text: impl Fn(u32) -> &'a str,
) -> io::Result<()> {
    out.write_all(b"[")?;
    let mut line = Vec::new();
    for (key, attribute) in attributes.iter().enumerate() {
        line.clear();
        line.extend_from_slice(if key == 0 { b"" } else { b"," });
        write!(line, "\n{{\"key\":{key},\"value\":")?;
        match attribute.value {
            Value::Int(value) => write!(line, "{value}")?,
            Value::Text(number) => push_text(&mut line, text(number)),
            Value::Bool(value) => write!(line, "{value}")?,
            // JSON has no word for what is not finite.
            Value::Double(value) if value.is_finite() => write!(line, "{value:?}")?,
            Value::Null | Value::Double(_) => line.extend_from_slice(b"null"),
        }
        line.push(b'}');
        out.write_all(&line)?;
    }
    out.write_all(b"\n]\n")
}

/// Writes tree.json.
pub(super) fn write_tree(out: &mut dyn Write, attributes: &[Attribute]) -> io::Result<()> {
    // Children of one parent stand together, in the order of their keys.
    let mut children: Vec<usize> = (1..attributes.len()).collect();
    children.sort_by_key(|&key| attributes[key].parent);
    let of = |parent: usize| {
        let parent_of = |&key: &usize| attributes[key].parent as usize;
        let start = children.partition_point(|key| parent_of(key) < parent);
        let end = children.partition_point(|key| parent_of(key) <= parent);
        &children[start..end]
    };
    out.write_all(b"{\"version\":{\"major\":1,\"minor\":0},\n\"root\":{\"key\":0")?;
    // What is left of each list of children that is open.
    let mut open = Vec::new();
    let mut node = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let list = of(node);
        match list.is_empty() {
            true => line.push(b'}'),
            false => line.extend_from_slice(b",\"children\":{"),
        }
        let first = !list.is_empty();
        if first {
            open.push(list);
        }
        while let Some([]) = open.last() {
            open.pop();
            line.extend_from_slice(b"}}");
        }
        let Some(list) = open.last_mut() else { break };
        node = list[0];
        *list = &list[1..];
        if !first {
            line.push(b',');
        }
        line.push(b'\n');
        match attributes[node].name {
            Name::Word(word) => push_text(&mut line, word),
            Name::Number(number) => write!(line, "\"{number}\"")?,
        }
        write!(line, ":{{\"key\":{node}")?;
        out.write_all(&line)?;
    }
    line.extend_from_slice(b"}\n");
    out.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::super::layout::Kind;
    use super::*;

    fn attribute(parent: u32, name: Name, kind: Kind, value: Value) -> Attribute {
        Attribute {
            parent,
            name,
            kind,
            since: 0,
            value,
        }
    }

    #[test]
    fn files_as_the_proposal_has_them() {
        let attributes = [
            attribute(0, Name::Word(""), Kind::None, Value::Null),
            attribute(0, Name::Word("Threads"), Kind::None, Value::Null),
            attribute(1, Name::Number(390), Kind::Int, Value::Int(-5)),
            attribute(0, Name::Word("CPUs"), Kind::Text, Value::Text(3)),
            attribute(1, Name::Number(7), Kind::Any, Value::Bool(true)),
            attribute(2, Name::Word("a\"b"), Kind::Double, Value::Double(1.5)),
        ];
        let text = |write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
            let mut out = Vec::new();
            write(&mut out).expect("memory");
            String::from_utf8(out).expect("UTF-8")
        };
        let types = "[\n{\"key\":0,\"type\":\"none\"},\n{\"key\":1,\"type\":\"none\"},\n\
                     {\"key\":2,\"type\":\"int\"},\n{\"key\":3,\"type\":\"string\"},\n\
                     {\"key\":4,\"type\":\"any\"},\n{\"key\":5,\"type\":\"double\"}\n]\n";
        assert_eq!(text(&|out| write_types(out, &attributes)), types);
        let tree = "{\"version\":{\"major\":1,\"minor\":0},\n\"root\":{\"key\":0,\"children\":{\n\
                    \"Threads\":{\"key\":1,\"children\":{\n\"390\":{\"key\":2,\"children\":{\n\
                    \"a\\\"b\":{\"key\":5}}},\n\"7\":{\"key\":4}}},\n\"CPUs\":{\"key\":3}}}}\n";
        assert_eq!(text(&|out| write_tree(out, &attributes)), tree);
        let state = "[\n{\"key\":0,\"value\":null},\n{\"key\":1,\"value\":null},\n\
                     {\"key\":2,\"value\":-5},\n{\"key\":3,\"value\":\"x3\"},\n\
                     {\"key\":4,\"value\":true},\n{\"key\":5,\"value\":1.5}\n]\n";
        assert_eq!(text(&|out| write_state(out, &attributes, |_| "x3")), state);
        let root = "{\"version\":{\"major\":1,\"minor\":0},\n\"root\":{\"key\":0}}\n";
        assert_eq!(text(&|out| write_tree(out, &attributes[..1])), root);
    }
}
