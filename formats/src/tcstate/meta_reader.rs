//! Reads meta.json, as far as it is intact. `meta` has its layout.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::meta::{CLOCK_NAMES, MISSING_NAMES, Meta, TRACE_NAMES, ThreadMeta};
use crate::facts::{self, Fact, Names};
use crate::json::{Bad, Key, each, int, parse, text_of_bytes};
use crate::model::{Counts, Function, FunctionId, Thread, ThreadId, Ticks, TraceInfo};

/// The most times of `states_anew` that are read. The recorder's ring holds fewer context switches.
const MAX_ANEW: usize = 1 << 18;

/// Takes a member about the trace.
fn take(fact: Fact, info: &mut TraceInfo, value: &Value) {
    let value = match value {
        Value::String(text) => Some(facts::Value::Text(text)),
        Value::Bool(flag) => Some(facts::Value::Flag(*flag)),
        Value::Number(_) => match fact {
            Fact::ErrorPpm => value.as_f64().map(facts::Value::Float),
            Fact::AheadNs | Fact::WallStepNs => int(value).map(facts::Value::Signed),
            _ => int(value).map(facts::Value::Number),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    if let Some(value) = value {
        fact.set(info, value);
    }
}

/// Takes the members about the trace from an object.
fn take_all(names: &Names, info: &mut TraceInfo, value: &Value) {
    for (fact, name) in names {
        if let Some(value) = value.get(name) {
            take(*fact, info, value);
        }
    }
}

impl Meta {
    /// Takes the members from the bytes. If they are damaged, takes the members before the damage, and
    /// reports it.
    pub(super) fn read(bytes: &[u8]) -> (Meta, Option<Bad>) {
        let mut meta = Meta::default();
        let text = &*text_of_bytes(bytes);
        let damage = parse(
            text,
            Members {
                meta: &mut meta,
                text,
            },
        )
        .err();
        let functions = &mut meta.info.functions;
        functions.sort_by_key(|function| function.id);
        functions.dedup_by_key(|function| function.id);
        meta.anew.sort_unstable();
        meta.anew.dedup();
        (meta, damage)
    }

    fn member(&mut self, name: &str, value: &Value) {
        match name {
            "start" => self.start = int(value),
            "end" => self.end = int(value),
            "timestamp" => self.timestamp = int(value),
            "missing" => take_all(MISSING_NAMES, &mut self.info, value),
            "clock" => {
                take_all(CLOCK_NAMES, &mut self.info, value);
                let anchor = value.get("anchor");
                let pair =
                    anchor.and_then(|pair| Some((member(pair, "time")?, member(pair, "unix")?)));
                self.info.clock.anchor = pair.map(|(time, unix)| (Ticks(time), unix));
            }
            _ => {
                if let Some(fact) = facts::named(TRACE_NAMES, name.as_bytes()) {
                    take(fact, &mut self.info, value);
                }
            }
        }
    }

    fn function(&mut self, value: &Value) {
        if let Some(function) = function(value) {
            let string = member(value, "string");
            self.strings
                .extend(string.map(|string| (string, function.id)));
            if value["listed"] != false {
                self.info.functions.push(function);
            }
        }
    }
}

/// The members of the file, which are taken one by one.
struct Members<'m, 't> {
    meta: &'m mut Meta,
    text: &'t str,
}

impl<'de> DeserializeSeed<'de> for Members<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Members { meta, text } = self;
        let expected = "a list: threads, functions and states_anew are lists";
        while let Some(name) = members.next_key_seed(Key)? {
            match &*name {
                "states_anew" => {
                    let take = |_, value: Value| {
                        let time = int(&value).filter(|_: &u64| meta.anew.len() < MAX_ANEW);
                        meta.anew.extend(time);
                    };
                    members.next_value_seed(each(text, expected, take))?;
                }
                "threads" => {
                    let take = |_, value: Value| meta.threads.extend(ThreadMeta::read(&value));
                    members.next_value_seed(each(text, expected, take))?;
                }
                "functions" => {
                    let take = |_, value: Value| meta.function(&value);
                    members.next_value_seed(each(text, expected, take))?;
                }
                name => {
                    let value = members.next_value()?;
                    meta.member(name, &value);
                }
            }
        }
        Ok(())
    }
}

impl ThreadMeta {
    /// `None`: it has no number.
    fn read(value: &Value) -> Option<ThreadMeta> {
        let counts = value.get("counts").map(|counts| {
            let mut all = Some(Counts::default());
            for (name, _) in facts::of_counts(&Counts::default()) {
                let count = member(counts, name).unwrap_or(0);
                facts::set_count(&mut all, name.as_bytes(), count);
            }
            all.unwrap_or_default()
        });
        let wall = value.get("wall");
        let wall = wall.and_then(|wall| Some((int(wall.get(0)?)?, int(wall.get(1)?)?)));
        Some(ThreadMeta {
            thread: Thread {
                id: ThreadId(member(value, "id")?),
                process: member(value, "process"),
                name: text_of(value, "name"),
                counts,
                totals: Vec::new(),
                early_calls: Vec::new(),
            },
            wall,
            span: member(value, "first").zip(member(value, "last")),
            before: member(value, "before").unwrap_or(0),
            after: member(value, "after").unwrap_or(0),
        })
    }
}

fn function(value: &Value) -> Option<Function> {
    Some(Function {
        id: FunctionId(member(value, "id")?),
        name: text_of(value, "name"),
        file: text_of(value, "file"),
        line: member(value, "line").unwrap_or(0),
        untimed: value["untimed"] == true,
        what: Default::default(),
    })
}

fn member<T: TryFrom<i128>>(value: &Value, name: &str) -> Option<T> {
    int(value.get(name)?)
}

fn text_of(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
