//! Looks at the files that count before a query reads them. A file that is damaged, cut short or of another schema
//! version is named and left out. The query reads the other files.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, bail};
use bytes::Bytes;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::manifest::{Days, FileEntry};
use crate::schema::{FOLDER, TABLES, VERSION, VERSION_KEY};
use crate::store::{REQUESTS, Store};

/// Bytes at the end of a file that have most footers.
const FOOTER: u64 = 64 << 10;

/// The files that can be read, and what is wrong with the others.
pub(crate) fn check(store: &Store, days: &Days) -> anyhow::Result<(Vec<FileEntry>, Vec<String>)> {
    let mut problems = days.problems.clone();
    for folder in store.folders(None)? {
        let version = folder
            .strip_prefix('v')
            .and_then(|number| number.parse::<u32>().ok());
        if let Some(version) = version.filter(|version| *version != VERSION) {
            let what = format!(
                "schema version {version}: this fdr-fleet knows version {VERSION}, so it is left out"
            );
            problems.push(format!("{}: {what}", store.name_of(&folder)));
        }
    }
    let mut sizes = HashMap::new();
    for table in TABLES {
        for meta in store.list(&format!("{FOLDER}/{}", table.name))? {
            sizes.insert(meta.location.to_string(), meta.size);
        }
    }
    let files: Vec<FileEntry> = days
        .days
        .values()
        .flat_map(|day| day.files().cloned())
        .collect();
    let look = |file: FileEntry| {
        let objects = store.objects.clone();
        let size = sizes.get(&file.path).copied();
        async move {
            let found = footer(&*objects, &file, size).await;
            (file, found)
        }
    };
    let looked = stream::iter(files.into_iter().map(look)).buffered(REQUESTS);
    let looked = store.runtime.block_on(looked.collect::<Vec<_>>());
    let mut good = Vec::new();
    for (file, found) in looked {
        match found {
            Ok(()) => good.push(file),
            Err(error) => problems.push(format!(
                "{}: {error:#}: its rows are left out",
                store.name_of(&file.path)
            )),
        }
    }
    Ok((good, problems))
}

/// Looks at a file's end.
async fn footer(
    objects: &dyn ObjectStore,
    file: &FileEntry,
    size: Option<u64>,
) -> anyhow::Result<()> {
    let size = size.context("no such file, but a commit lists it")?;
    if size != file.bytes {
        bail!(
            "it has {size} bytes, and its commit says {}: it is damaged or cut short",
            file.bytes
        );
    }
    let location = Path::from(file.path.as_str());
    let mut want = FOOTER.min(size);
    let metadata = loop {
        let bytes = objects
            .get_range(&location, size - want..size)
            .await
            .context("can't be read")?;
        let mut reader = ParquetMetaDataReader::new();
        match reader.try_parse_sized(&bytes, size) {
            Ok(()) => break reader.finish().context("no Parquet file")?,
            Err(ParquetError::NeedMoreData(more))
                if (more as u64) > want && more as u64 <= size =>
            {
                want = more as u64
            }
            Err(error) => return Err(error).context("no Parquet file"),
        }
    };
    check_version(file, &metadata)
}

fn check_version(file: &FileEntry, metadata: &ParquetMetaData) -> anyhow::Result<()> {
    let facts = metadata.file_metadata();
    let pairs = facts.key_value_metadata().into_iter().flatten();
    let version = pairs.into_iter().find(|pair| pair.key == VERSION_KEY);
    let version = version
        .and_then(|pair| pair.value.as_deref())
        .unwrap_or("none");
    if version != VERSION.to_string() {
        bail!("it has schema version {version}, and this fdr-fleet knows version {VERSION}");
    }
    let table = file.table().context("it is of no table of this version")?;
    let schema = parquet_to_arrow_schema(facts.schema_descr(), facts.key_value_metadata());
    let schema = schema.context("no table")?;
    let names = |schema: &arrow::datatypes::Schema| -> Vec<_> {
        schema
            .fields()
            .iter()
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect()
    };
    if names(&schema) != names(&table.schema()) {
        bail!("its columns are not those of {}", table.name);
    }
    if u64::try_from(facts.num_rows()) != Ok(file.rows) {
        bail!(
            "it has {} rows, and its commit says {}",
            facts.num_rows(),
            file.rows
        );
    }
    Ok(())
}

/// Reads whole files after a failed query. Returns the paths of the files that can't be decoded, with the errors.
pub(crate) fn check_all(
    store: &Store,
    files: &[FileEntry],
) -> anyhow::Result<(HashSet<String>, Vec<String>)> {
    let (mut bad, mut problems) = (HashSet::new(), Vec::new());
    for file in files {
        let bytes = store
            .read_all(std::slice::from_ref(&file.path))?
            .pop()
            .flatten();
        if let Err(error) = decode(bytes) {
            problems.push(format!(
                "{}: {error:#}: its rows are left out",
                store.name_of(&file.path)
            ));
            bad.insert(file.path.clone());
        }
    }
    Ok((bad, problems))
}

fn decode(bytes: Option<Vec<u8>>) -> anyhow::Result<()> {
    let bytes = Bytes::from(bytes.context("no such file")?);
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).context("damaged")?;
    for batch in reader.build().context("damaged")? {
        batch.context("damaged")?;
    }
    Ok(())
}
