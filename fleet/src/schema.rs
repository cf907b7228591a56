//! The tables of version 1: their names, columns and Parquet settings. docs/fleet.md says what each column means. A
//! column of a released version is never renamed, and never changes its unit.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

/// The version of the tables: the folder `v1`, and [`VERSION_KEY`] of each file.
pub(crate) const VERSION: u32 = 1;
/// The folder of all tables.
pub(crate) const FOLDER: &str = "v1";
/// The key under which a Parquet file says the version of its table.
pub(crate) const VERSION_KEY: &str = "fdr.schema";
/// Rows of a row group.
pub(crate) const GROUP_ROWS: usize = 1 << 20;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// 64 bits, signed.
    Long,
    /// 32 bits, signed.
    Int,
    /// UTF-8.
    Text,
    /// The same, few different ones in a file.
    Key,
    /// True or false.
    Truth,
}

/// A column: its name, what it holds, and whether it may be absent.
pub(crate) type Column = (&'static str, Kind, bool);

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// Its rows are of single calls or events: `--only-stats` leaves it out, and it expires.
    pub(crate) is_detail: bool,
    pub(crate) columns: &'static [Column],
}

use Kind::{Int, Key, Long, Text, Truth};

const TRACE: Column = ("trace_key", Key, false);
const PROCESS: Column = ("process_key", Key, false);
const FUNCTION: Column = ("function_key", Long, false);
const SCOPE: Column = ("scope", Key, false);

pub(crate) const SPANS: Table = Table {
    name: "spans",
    is_detail: true,
    columns: &[
        TRACE,
        PROCESS,
        ("tid", Long, false),
        ("seq", Long, false),
        ("parent_seq", Long, true),
        FUNCTION,
        ("start_ns", Long, false),
        ("dur_ns", Long, false),
        ("self_ns", Long, false),
        ("running_ns", Long, true),
        ("waiting_ns", Long, true),
        ("depth", Int, false),
        ("cpu", Int, true),
        ("clipped", Truth, false),
        ("synthetic", Truth, false),
        ("task_id", Long, true),
        ("args", Text, true),
    ],
};

pub(crate) const EVENTS: Table = Table {
    name: "events",
    is_detail: true,
    columns: &[
        TRACE,
        PROCESS,
        ("tid", Long, false),
        ("seq", Long, false),
        ("nth", Int, false),
        ("time_ns", Long, false),
        ("name", Key, false),
        ("form", Key, false),
        ("level", Key, true),
        ("fields", Text, true),
    ],
};

pub(crate) const FUNCTION_STATS: Table = Table {
    name: "function_stats",
    is_detail: false,
    columns: &[
        TRACE,
        PROCESS,
        SCOPE,
        FUNCTION,
        ("calls", Long, false),
        ("clipped", Long, false),
        ("counted", Long, false),
        ("untimed", Truth, false),
        ("total_ns", Long, false),
        ("self_ns", Long, false),
        ("min_ns", Long, true),
        ("max_ns", Long, true),
        ("running_ns", Long, true),
        ("preempted_ns", Long, true),
        ("waiting_ns", Long, true),
    ],
};

pub(crate) const FUNCTION_LENGTHS: Table = Table {
    name: "function_lengths",
    is_detail: false,
    columns: &[
        TRACE,
        PROCESS,
        SCOPE,
        FUNCTION,
        ("bucket", Int, false),
        ("middle_ns", Long, false),
        ("calls", Long, false),
    ],
};

pub(crate) const FUNCTIONS: Table = Table {
    name: "functions",
    is_detail: false,
    columns: &[
        FUNCTION,
        ("program", Key, false),
        ("name", Text, false),
        ("file", Text, false),
        ("line", Int, false),
    ],
};

pub(crate) const THREADS: Table = Table {
    name: "threads",
    is_detail: false,
    columns: &[
        TRACE,
        PROCESS,
        ("tid", Long, false),
        ("name", Text, false),
        ("first_ns", Long, true),
        ("last_ns", Long, true),
        ("first_seq", Long, false),
        ("next_seq", Long, false),
        ("records", Long, false),
    ],
};

pub(crate) const PROCESSES: Table = Table {
    name: "processes",
    is_detail: false,
    columns: &[
        TRACE,
        PROCESS,
        ("program", Key, false),
        ("pid", Long, true),
        ("host_name", Key, false),
        ("boot_id", Key, false),
        ("start_ns", Long, true),
        ("build_id", Key, false),
        ("version", Key, false),
        ("tags", Key, false),
    ],
};

pub(crate) const HOSTS: Table = Table {
    name: "hosts",
    is_detail: false,
    columns: &[
        ("host_name", Key, false),
        ("boot_id", Key, false),
        ("clock", Key, false),
        ("clock_hz", Long, false),
    ],
};

pub(crate) const TRACES: Table = Table {
    name: "traces",
    is_detail: false,
    columns: &[
        TRACE,
        PROCESS,
        ("dump", Long, true),
        ("reason", Key, false),
        ("format", Key, false),
        ("start_ns", Long, true),
        ("end_ns", Long, true),
        ("has_run", Truth, false),
        ("damage", Text, true),
    ],
};

pub(crate) const LOSSES: Table = Table {
    name: "losses",
    is_detail: false,
    columns: &[
        TRACE,
        PROCESS,
        ("tid", Long, true),
        ("recorded", Long, true),
        ("readable", Long, false),
        ("overwritten", Long, true),
        ("dropped", Long, true),
        ("summarised", Long, true),
        ("lost", Long, false),
        ("clock_breaks", Long, false),
        ("short_calls", Long, false),
        ("short_ns", Long, false),
        ("missing_threads", Long, true),
    ],
};

/// All tables.
pub(crate) const TABLES: [&Table; 10] = [
    &SPANS,
    &EVENTS,
    &FUNCTION_STATS,
    &FUNCTION_LENGTHS,
    &FUNCTIONS,
    &THREADS,
    &PROCESSES,
    &HOSTS,
    &TRACES,
    &LOSSES,
];

impl Table {
    /// The table with that name.
    pub(crate) fn named(name: &str) -> Option<&'static Table> {
        TABLES.into_iter().find(|table| table.name == name)
    }

    /// Its columns for Arrow, without those that the folders say.
    pub(crate) fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|&(name, kind, absent)| {
            let kind = match kind {
                Kind::Long => DataType::Int64,
                Kind::Int => DataType::Int32,
                Kind::Text | Kind::Key => DataType::Utf8,
                Kind::Truth => DataType::Boolean,
            };
            Field::new(name, kind, absent)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// How its files are written.
    pub(crate) fn properties(&self) -> WriterProperties {
        let version = KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_string());
        let level = ZstdLevel::try_new(3).unwrap_or_default();
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_created_by(format!("fdr-fleet {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(vec![version]));
        for &(name, kind, _) in self.columns {
            let column = ColumnPath::from(name);
            properties = match (kind, name) {
                // Few different ones: a dictionary, and a filter where it is asked for.
                (Kind::Long, "function_key") if self.is_detail => filtered(properties, column),
                (Kind::Long, "function_key" | "tid") => properties,
                (Kind::Long, _) => {
                    properties = properties.set_column_dictionary_enabled(column.clone(), false);
                    properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
                }
                _ => properties,
            };
        }
        properties.build()
    }
}

/// With a bloom filter for some thousand different values.
fn filtered(properties: WriterPropertiesBuilder, column: ColumnPath) -> WriterPropertiesBuilder {
    let properties = properties.set_column_bloom_filter_enabled(column.clone(), true);
    let properties = properties.set_column_bloom_filter_fpp(column.clone(), 0.01);
    properties.set_column_bloom_filter_max_ndv(column, 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_documented() {
        let page = include_str!("../../docs/fleet.md");
        for table in TABLES {
            let heading = format!("### {}\n", table.name);
            let part = page.split(&heading).nth(1);
            let part = part.unwrap_or_else(|| panic!("docs/fleet.md has no {heading:?}"));
            let part = part.split("\n### ").next().unwrap_or_default();
            for (name, ..) in table.columns {
                assert!(part.contains(&format!("`{name}`")), "{}.{name}", table.name);
            }
        }
    }

    /// Spark reads the columns from this file.
    #[test]
    fn tables_json_has_the_same_columns() {
        let told: std::collections::BTreeMap<String, String> =
            serde_json::from_str(include_str!("../sql/tables.json")).unwrap();
        assert_eq!(told.len(), TABLES.len());
        for table in TABLES {
            let column = |(name, kind, _): &Column| {
                let kind = match kind {
                    Kind::Long => "BIGINT",
                    Kind::Int => "INT",
                    Kind::Text | Kind::Key => "STRING",
                    Kind::Truth => "BOOLEAN",
                };
                format!("{name} {kind}")
            };
            let columns: Vec<String> = table.columns.iter().map(column).collect();
            assert_eq!(told[table.name], columns.join(", "), "{}", table.name);
        }
    }

    #[test]
    fn names_find_their_tables() {
        for table in TABLES {
            assert!(
                Table::named(table.name)
                    .is_some_and(|found| std::ptr::eq(found, table) || found.name == table.name)
            );
        }
        assert!(Table::named("span").is_none());
    }
}
