//! The rows of an answer as a table, CSV, JSON or Parquet, to standard output or to a file that appears whole.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use clap::ValueEnum;
use datafusion::arrow::csv;
use datafusion::arrow::json::ArrayWriter;
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use parquet::arrow::ArrowWriter;

/// Rows that are shown as a table, at most: it is made as a whole.
const MAX: usize = 100_000;

/// What an answer looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Csv,
    Json,
    Parquet,
}

/// Where an answer goes.
pub(crate) struct Output {
    kind: Kind,
    /// The temporary file and its place.
    file: Option<(PathBuf, PathBuf)>,
    schema: SchemaRef,
    pub(crate) rows: usize,
}

type Target = Box<dyn Write + Send>;

enum Kind {
    Table(Target, Vec<RecordBatch>),
    Csv(Box<csv::Writer<Target>>),
    Json(ArrayWriter<Target>, bool),
    Parquet(Box<ArrowWriter<Target>>),
}

impl Output {
    /// `file`: else standard output.
    pub(crate) fn new(
        format: Format,
        file: Option<&Path>,
        schema: SchemaRef,
    ) -> anyhow::Result<Output> {
        let file = file.map(|path| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}.tmp", std::process::id()));
            (path.with_file_name(name), path.to_owned())
        });
        let target: Target = match &file {
            Some((temporary, _)) => {
                let made =
                    File::create(temporary).with_context(|| temporary.display().to_string())?;
                Box::new(BufWriter::new(made))
            }
            None => Box::new(BufWriter::new(io::stdout())),
        };
        let kind = match format {
            Format::Table => Kind::Table(target, Vec::new()),
            Format::Csv => {
                let writer = csv::WriterBuilder::new().with_header(true).build(target);
                Kind::Csv(Box::new(writer))
            }
            Format::Json => Kind::Json(ArrayWriter::new(target), false),
            Format::Parquet if file.is_none() => bail!("--format parquet needs -o FILE"),
            Format::Parquet => Kind::Parquet(Box::new(ArrowWriter::try_new(
                target,
                schema.clone(),
                None,
            )?)),
        };
        Ok(Output {
            kind,
            file,
            schema,
            rows: 0,
        })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        let before = self.rows;
        self.rows += batch.num_rows();
        match &mut self.kind {
            Kind::Table(_, batches) => {
                let room = MAX.saturating_sub(before);
                batches.push(batch.slice(0, room.min(batch.num_rows())));
            }
            Kind::Csv(writer) => writer.write(batch)?,
            Kind::Json(writer, any) => {
                *any |= batch.num_rows() > 0;
                writer.write(batch)?;
            }
            Kind::Parquet(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    /// Ends the answer, and puts its file in place.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let mut target = match self.kind {
            Kind::Table(mut target, batches) => {
                let table = pretty_format_batches_with_schema(self.schema, &batches)?.to_string();
                // Names come from traces: a terminal must not obey them.
                let clean = |c: char| {
                    if c.is_control() && c != '\n' {
                        '\u{fffd}'
                    } else {
                        c
                    }
                };
                writeln!(target, "{}", table.chars().map(clean).collect::<String>())?;
                if self.rows > MAX {
                    writeln!(
                        target,
                        "and {} more rows: --format csv has all",
                        self.rows - MAX
                    )?;
                }
                target
            }
            Kind::Csv(mut writer) => {
                if self.rows == 0 {
                    // The header.
                    writer.write(&RecordBatch::new_empty(self.schema))?;
                }
                writer.into_inner()
            }
            Kind::Json(mut writer, any) => {
                writer.finish()?;
                let mut target = writer.into_inner();
                target.write_all(if any { b"\n" } else { b"" })?;
                target
            }
            Kind::Parquet(writer) => writer.into_inner()?,
        };
        target.flush()?;
        drop(target);
        if let Some((temporary, path)) = &self.file {
            std::fs::rename(temporary, path).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}
