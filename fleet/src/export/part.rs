//! Files of a table on their way into the store. They are written under temporary names, and become part of the
//! store together. If that fails, they are removed.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::Context;
use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;

use crate::manifest::FileEntry;
use crate::schema::{FOLDER, Table};
use crate::store::Store;

/// Rows of the largest file: about half a gigabyte of spans.
const MAX_ROWS: u64 = 64 << 20;

/// A file that is finished, but not part of the store.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) temporary: Temporary,
    pub(crate) entry: FileEntry,
}

/// Removes its file at the end, unless that was published.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // A published file has another name.
        let _ = fs::remove_file(&self.0);
    }
}

impl Finished {
    /// Makes it part of the store. It counts once a commit or a manifest lists it.
    pub(crate) fn publish(self, store: &Store) -> anyhow::Result<FileEntry> {
        store.publish(&self.temporary.0, &self.entry.path)?;
        Ok(self.entry)
    }
}

/// Writes the rows of one partition of a table, in files of at most [`MAX_ROWS`].
pub(crate) struct Part<'a> {
    store: &'a Store,
    table: &'static Table,
    /// `date=…/host=…`.
    partition: String,
    /// The beginning of the names.
    stem: String,
    open: Option<(ArrowWriter<File>, Temporary)>,
    rows: u64,
    finished: Vec<Finished>,
}

impl<'a> Part<'a> {
    /// `stem`: no other writer uses it.
    pub(crate) fn new(
        store: &'a Store,
        table: &'static Table,
        partition: &str,
        stem: String,
    ) -> Part<'a> {
        Part {
            store,
            table,
            partition: partition.to_owned(),
            stem,
            open: None,
            rows: 0,
            finished: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (writer, _) = match &mut self.open {
            Some(open) => open,
            open => {
                let (path, file) = self.store.temporary()?;
                let properties = Some(self.table.properties());
                let writer = ArrowWriter::try_new(file, self.table.schema(), properties);
                open.insert((writer.context("a Parquet file")?, Temporary(path)))
            }
        };
        writer
            .write(batch)
            .with_context(|| format!("a file of {}", self.table.name))?;
        self.rows += batch.num_rows() as u64;
        if self.rows >= MAX_ROWS {
            self.close()?;
        }
        Ok(())
    }

    fn close(&mut self) -> anyhow::Result<()> {
        let Some((writer, temporary)) = self.open.take() else {
            return Ok(());
        };
        let what = || format!("a file of {}", self.table.name);
        let file = writer.into_inner().with_context(what)?;
        file.sync_all().with_context(what)?;
        let bytes = file.metadata().with_context(what)?.len();
        let (stem, nth) = (&self.stem, self.finished.len());
        let path = format!(
            "{FOLDER}/{}/{}/{stem}-{nth}.parquet",
            self.table.name, self.partition
        );
        let rows = std::mem::take(&mut self.rows);
        self.finished.push(Finished {
            temporary,
            entry: FileEntry { path, bytes, rows },
        });
        Ok(())
    }

    /// Ends the last file.
    pub(crate) fn finish(mut self) -> anyhow::Result<Vec<Finished>> {
        self.close()?;
        Ok(self.finished)
    }
}
