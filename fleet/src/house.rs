//! `fdr-fleet compact` and `expire`: few large files instead of many small ones, and an end for old spans. New files
//! are written first, and then a day's next manifest makes them count. Files that do not count are removed later,
//! because a query may still read them.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::export::part::{Finished, Part};
use crate::keys::date_of;
use crate::manifest::{self, Day, Days, FileEntry, Manifest};
use crate::schema::{FOLDER, TABLES, VERSION};
use crate::store::Store;
use crate::{Status, complain};

/// A file with at least this many bytes is large.
const LARGE: u64 = 128 << 20;
/// A day's older manifests that stay.
const DAY: u64 = 24 * 60 * 60;

/// Make few large files of the many small ones of a day
///
/// It may be stopped at any moment, and run beside exports and queries.
#[derive(clap::Args)]
pub(crate) struct CompactOptions {
    /// The folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: String,
    /// Remove files that do not count once they are older than this
    #[arg(long, value_name = "TIME", value_parser = duration_of, default_value = "1d")]
    grace: Duration,
}

/// Remove the spans and events of old days; their statistics stay
///
/// It may be stopped at any moment, and run beside exports and queries.
#[derive(clap::Args)]
pub(crate) struct ExpireOptions {
    /// The folder, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: String,
    /// Days that ended longer ago than this: 30d, 12h
    #[arg(long, value_name = "TIME", value_parser = duration_of)]
    older: Duration,
    /// Remove files that do not count once they are older than this
    #[arg(long, value_name = "TIME", value_parser = duration_of, default_value = "1d")]
    grace: Duration,
}

/// `30d`, `12h`, `5m`, `0s`.
fn duration_of(text: &str) -> Result<Duration, String> {
    let wrong = || "not a time: a number with d, h, m or s".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        'd' => DAY,
        'h' => 60 * 60,
        'm' => 60,
        's' => 1,
        _ => return Err(wrong()),
    };
    let number = text
        .strip_suffix(unit)
        .and_then(|number| number.parse::<u64>().ok());
    let seconds = number.and_then(|number| number.checked_mul(seconds));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// Runs `compact`.
pub(crate) fn compact(options: &CompactOptions) -> anyhow::Result<Status> {
    let store = Store::open(&options.place, false)?;
    let days = manifest::read(&store)?;
    let mut status = tell(&days);
    let (mut before, mut after) = (0, 0);
    for (date, day) in &days.days {
        if day.is_damaged {
            continue;
        }
        match compact_day(&store, date, day) {
            Ok(Some((old, new))) => {
                before += old;
                after += new;
            }
            Ok(None) => {}
            Err(error) => {
                complain(&format!("{error:#}: the day {date} stays as it is"));
                status = Status::LeftOut;
            }
        }
    }
    let removed = sweep(&store, options.grace)?;
    println!("{before} files became {after}; {removed} files that do not count were removed");
    Ok(status)
}

/// Runs `expire`.
pub(crate) fn expire(options: &ExpireOptions) -> anyhow::Result<Status> {
    let store = Store::open(&options.place, false)?;
    let days = manifest::read(&store)?;
    let status = tell(&days);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let limit = now
        .saturating_sub(options.older)
        .saturating_sub(Duration::from_secs(DAY));
    let limit = date_of(i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX));
    let mut expired = 0;
    for (date, day) in &days.days {
        if day.is_damaged || *date > limit {
            continue;
        }
        let is_old = |file: &&FileEntry| file.table().is_some_and(|table| table.is_detail);
        if !day.files().any(|file| is_old(&file)) {
            continue;
        }
        let files: Vec<FileEntry> = day.files().filter(|file| !is_old(file)).cloned().collect();
        expired += day.files().count() - files.len();
        switch(&store, date, day, files)?;
    }
    let removed = sweep(&store, options.grace)?;
    println!("{expired} files expired; {removed} files that do not count were removed");
    Ok(status)
}

/// Says what is left out.
fn tell(days: &Days) -> Status {
    days.problems.iter().for_each(|problem| complain(problem));
    match days.problems.is_empty() {
        true => Status::Done,
        false => Status::LeftOut,
    }
}

/// Makes a day's next manifest, with these files in place of all that count now.
fn switch(store: &Store, date: &str, day: &Day, files: Vec<FileEntry>) -> anyhow::Result<()> {
    let mut covers = day.manifest.covers.clone();
    covers.extend(day.commits.iter().map(|commit| commit.name.clone()));
    let next = Manifest {
        schema: VERSION,
        covers,
        files,
    };
    if !manifest::switch(store, date, day, &next)? {
        bail!("another command changed the day {date} meanwhile: run this one again");
    }
    Ok(())
}

/// Files before and after. `None`: there is nothing to do.
fn compact_day(store: &Store, date: &str, day: &Day) -> anyhow::Result<Option<(usize, usize)>> {
    let mut groups: BTreeMap<(&str, &str), Vec<&FileEntry>> = BTreeMap::new();
    let mut kept = Vec::new();
    for file in day.files() {
        match file.parts() {
            Some(parts) if file.bytes < LARGE && file.table().is_some() => {
                groups.entry(parts).or_default().push(file);
            }
            _ => kept.push(file.clone()),
        }
    }
    if groups.values().all(|files| files.len() < 2) && day.commits.is_empty() {
        return Ok(None);
    }
    let (mut before, mut finished) = (0, Vec::new());
    for ((_, partition), files) in groups {
        let [first, _, ..] = files[..] else {
            kept.extend(files.into_iter().cloned());
            continue;
        };
        before += files.len();
        let table = first.table().context("a table")?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let mut part = Part::new(store, table, partition, format!("compact-{id}"));
        for file in files {
            copy(store, file, &mut part).with_context(|| store.name_of(&file.path))?;
        }
        finished.extend(part.finish()?);
    }
    let after = finished.len();
    let published = finished
        .into_iter()
        .map(|file: Finished| file.publish(store));
    let published = published.collect::<anyhow::Result<Vec<_>>>()?;
    kept.extend(published);
    switch(store, date, day, kept)?;
    Ok(Some((before, after)))
}

/// Adds the rows of a file.
fn copy(store: &Store, file: &FileEntry, part: &mut Part<'_>) -> anyhow::Result<()> {
    let bytes = store
        .read_all(std::slice::from_ref(&file.path))?
        .pop()
        .flatten();
    let bytes = bytes.context("no such file")?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))?;
    let reader = reader.with_batch_size(1 << 16).build()?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        part.write(&batch)?;
    }
    if rows != file.rows {
        bail!("it has {rows} rows, and its commit says {}", file.rows);
    }
    Ok(())
}

/// Removes commits that a manifest covers, and files that do not count and are older than that.
fn sweep(store: &Store, grace: Duration) -> anyhow::Result<u64> {
    let mut removed = store.remove_temporary(grace)?;
    // Files first: what is made after this listing is not in it.
    let mut found = Vec::new();
    for table in TABLES {
        found.extend(store.list(&format!("{FOLDER}/{}", table.name))?);
    }
    let manifests = store.list(&format!("{FOLDER}/_manifest"))?;
    let days = manifest::read(store)?;
    if !days.problems.is_empty() {
        // Then there is no way to know which files are valid.
        return Ok(removed);
    }
    let mut counted: HashSet<&str> = HashSet::new();
    let mut old = Vec::new();
    for (date, day) in &days.days {
        counted.extend(day.files().map(|file| file.path.as_str()));
        old.extend(
            day.covered
                .iter()
                .map(|name| manifest::commit_path(date, name)),
        );
    }
    let newest = |path: &str| {
        days.days
            .iter()
            .any(|(date, day)| manifest::manifest_path(date, day.number) == path)
    };
    let now = SystemTime::now();
    let is_old = |meta: &object_store::ObjectMeta| {
        let age = now.duration_since(meta.last_modified.into());
        age.unwrap_or_default() >= grace
    };
    let files = found
        .iter()
        .filter(|meta| is_old(meta))
        .map(|meta| meta.location.to_string());
    old.extend(files.filter(|path| !counted.contains(path.as_str())));
    let manifests = manifests
        .iter()
        .filter(|meta| is_old(meta))
        .map(|meta| meta.location.to_string());
    old.extend(manifests.filter(|path| !newest(path)));
    store.remove(&old)?;
    removed += old.len() as u64;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration_of("30d"), Ok(Duration::from_secs(30 * DAY)));
        assert_eq!(duration_of("0s"), Ok(Duration::ZERO));
        assert_eq!(duration_of("12h"), Ok(Duration::from_secs(12 * 3600)));
        for wrong in [
            "",
            "d",
            "30",
            "30x",
            "-1d",
            "1.5h",
            "99999999999999999999d",
            "ü",
        ] {
            assert!(duration_of(wrong).is_err(), "{wrong}");
        }
    }
}
