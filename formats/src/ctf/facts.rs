//! The facts that one of our folders states about itself: trace, functions, threads. Takes them from the values of an
//! event.

use std::collections::{BTreeMap, HashMap};
use std::io;

use super::record::{TRACE_BITS, TRACE_NAMES, known};
use super::schema::{Fact, Schema};
use super::states::unhex;
use super::stream::{Event, Reader};
use crate::bytes::groups;
use crate::facts::{self, Value};
use crate::model::{
    Account, Cause, CpuId, Function, FunctionId, FunctionKind, Module, Sample, State, Switch,
    Thread, ThreadId, Ticks, TraceInfo,
};
use crate::note_class::NoteClass;
use crate::notes::MAX_FIELDS;

/// The facts of the fact stream.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) functions: BTreeMap<FunctionId, Function>,
    /// Threads in the order of their first facts.
    pub(super) threads: Vec<Thread>,
    thread_of: HashMap<ThreadId, usize>,
    /// Classes of notes, by their numbers.
    pub(super) classes: HashMap<u64, NoteClass>,
}

impl Facts {
    /// The place of a thread. A thread without facts so far is added.
    pub(super) fn thread(&mut self, id: ThreadId) -> usize {
        *self.thread_of.entry(id).or_insert_with(|| {
            self.threads.push(Thread {
                id,
                ..Thread::default()
            });
            self.threads.len() - 1
        })
    }

    /// Takes the facts from an event that was just read.
    pub(super) fn learn(
        &mut self,
        fact: Fact,
        schema: &Schema,
        event: &Event,
        reader: &mut Reader<'_>,
        info: &mut TraceInfo,
    ) -> io::Result<()> {
        let mut fields = Fields {
            schema,
            event,
            reader,
        };
        match fact {
            Fact::Trace => trace(&mut fields, info)?,
            Fact::Class => {
                let (id, event) = (fields.number("class"), fields.number("about"));
                let fields = fields.longs("fields")?;
                let class = NoteClass { event, fields };
                self.classes.entry(id).or_insert(class);
            }
            Fact::Function | Fact::Name => {
                let function = fields.function()?;
                self.functions.entry(function.id).or_insert(function);
            }
            Fact::Switch => info.schedule.switches.push(Switch {
                time: Ticks(event.time),
                thread: ThreadId(fields.number("thread")),
                cpu: CpuId(fields.number("cpu") as u32),
                to: State::from_number(fields.number("state") as u8),
            }),
            Fact::Sample => info.schedule.samples.extend(fields.sample()),
            Fact::Module => info.schedule.modules.push(fields.module()?),
            Fact::Account => info.schedule.accounts.push(Account {
                time: Ticks(event.time),
                thread: ThreadId(fields.number("thread")),
                running_ns: fields.number("running_ns"),
                run_delay_ns: fields.number("run_delay_ns"),
                times: fields.number("times"),
            }),
            Fact::Thread => self.learn_thread(&mut fields)?,
        }
        Ok(())
    }

    fn learn_thread(&mut self, fields: &mut Fields<'_, '_>) -> io::Result<()> {
        let place = self.thread(ThreadId(fields.number("id")));
        let bits = fields.number("known") as u8;
        let counts = facts::counts_of(|name| fields.number(name));
        let process = fields.number("process");
        let name = fields.text("name")?;
        let thread = &mut self.threads[place];
        thread.name = name;
        thread.process = (bits & known::PROCESS != 0).then_some(process);
        thread.counts = (bits & known::COUNTS != 0).then_some(counts);
        Ok(())
    }
}

fn trace(fields: &mut Fields<'_, '_>, info: &mut TraceInfo) -> io::Result<()> {
    let bits = fields.number("known") as u8;
    for &(fact, name) in TRACE_NAMES {
        let bit = TRACE_BITS.iter().find(|(known, _)| *known == fact);
        if bit.is_some_and(|(_, bit)| bits & bit == 0) {
            continue;
        }
        let text;
        let value = match fact {
            fact if fact.is_text() => {
                text = fields.text(name)?;
                Value::Text(&text)
            }
            fact if fact.is_flag() => Value::Flag(fields.number(name) != 0),
            facts::Fact::ErrorPpm => Value::Float(fields.float(name)),
            _ => Value::Number(fields.number(name)),
        };
        fact.set(info, value);
    }
    Ok(())
}

/// The fields of an event, by name.
struct Fields<'r, 'a> {
    schema: &'r Schema,
    event: &'r Event,
    reader: &'r mut Reader<'a>,
}

impl Fields<'_, '_> {
    fn node(&self) -> Option<&super::types::Node> {
        let stream = self.schema.streams.get(self.event.stream)?;
        stream.events.get(self.event.class)?.fields.as_ref()
    }

    fn number(&self, name: &str) -> u64 {
        let slot = self.node().and_then(|node| node.number(name));
        slot.map_or(0, |slot| self.reader.values.number(slot))
    }

    fn float(&self, name: &str) -> f64 {
        let slot = self.node().and_then(|node| node.float(name));
        f64::from_bits(slot.map_or(0, |slot| self.reader.values.number(slot)))
    }

    fn longs(&mut self, name: &str) -> io::Result<Vec<u64>> {
        let slot = self.node().and_then(|node| node.row(name, 64));
        let Some(slot) = slot else {
            return Ok(Vec::new());
        };
        let row = groups::<8>(self.reader.row(slot)?);
        Ok(row.map(u64::from_le_bytes).take(MAX_FIELDS).collect())
    }

    fn text(&mut self, name: &str) -> io::Result<String> {
        let slot = self.node().and_then(|node| node.row(name, 8));
        match slot {
            Some(slot) => Ok(String::from_utf8_lossy(self.reader.row(slot)?).into_owned()),
            None => Ok(String::new()),
        }
    }
    fn function(&mut self) -> io::Result<Function> {
        Ok(Function {
            id: FunctionId(self.number("id") as u32),
            name: self.text("name")?,
            file: self.text("file")?,
            line: self.number("line") as u32,
            untimed: false,
            kind: FunctionKind::from_number(self.number("what") as u8),
        })
    }

    fn sample(&self) -> Option<Sample> {
        let cause = Cause::from_number(self.number("cause") as u8)?;
        Some(Sample {
            time: Ticks(self.event.time),
            thread: ThreadId(self.number("thread")),
            cpu: CpuId(self.number("cpu") as u32),
            cause,
            address: self.number("address"),
        })
    }

    fn module(&mut self) -> io::Result<Module> {
        Ok(Module {
            start: self.number("start"),
            end: self.number("end"),
            bias: self.number("bias"),
            build: unhex(&self.text("build")?),
            path: self.text("path")?,
        })
    }
}
