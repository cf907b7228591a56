//! Rows on their way into a table: a list for each column, in the order of the table's columns.

use std::sync::Arc;

use anyhow::{Context, bail};
use arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};

use crate::schema::{Kind, Table};

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Long(Option<i64>),
    Int(Option<i32>),
    Text(Option<String>),
    Truth(bool),
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Long(Some(number))
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Value {
        Value::Long(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Value {
        Value::Int(Some(number))
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Truth(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(Some(text.to_owned()))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Value {
        Value::Text(text)
    }
}

/// A column of values.
#[derive(Debug)]
enum Values {
    Long(Vec<Option<i64>>),
    Int(Vec<Option<i32>>),
    Text(Vec<Option<String>>),
    Truth(Vec<bool>),
}

/// Rows of a table.
#[derive(Debug)]
pub(crate) struct Rows {
    table: &'static Table,
    columns: Vec<Values>,
}

impl Rows {
    pub(crate) fn new(table: &'static Table) -> Rows {
        let columns = table.columns.iter().map(|(_, kind, _)| match kind {
            Kind::Long => Values::Long(Vec::new()),
            Kind::Int => Values::Int(Vec::new()),
            Kind::Text | Kind::Key => Values::Text(Vec::new()),
            Kind::Truth => Values::Truth(Vec::new()),
        });
        Rows {
            table,
            columns: columns.collect(),
        }
    }

    /// Adds a row: a value for each column, in their order.
    pub(crate) fn push<const N: usize>(&mut self, values: [Value; N]) -> anyhow::Result<()> {
        if N != self.columns.len() {
            bail!("a row of {} has {N} values", self.table.name);
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            match (column, value) {
                (Values::Long(list), Value::Long(value)) => list.push(value),
                (Values::Int(list), Value::Int(value)) => list.push(value),
                (Values::Text(list), Value::Text(value)) => list.push(value),
                (Values::Truth(list), Value::Truth(value)) => list.push(value),
                (_, value) => bail!("{} has no column for {value:?}", self.table.name),
            }
        }
        Ok(())
    }

    /// As Arrow has them.
    pub(crate) fn batch(self) -> anyhow::Result<RecordBatch> {
        let arrays = self.columns.into_iter().map(|column| -> ArrayRef {
            match column {
                Values::Long(list) => Arc::new(Int64Array::from(list)),
                Values::Int(list) => Arc::new(Int32Array::from(list)),
                Values::Text(list) => Arc::new(StringArray::from(list)),
                Values::Truth(list) => Arc::new(BooleanArray::from(list)),
            }
        });
        RecordBatch::try_new(self.table.schema(), arrays.collect())
            .with_context(|| format!("rows of {}", self.table.name))
    }
}
