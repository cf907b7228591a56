//! Which files of a store count. An export writes its files, and then one commit that lists them. A day's manifest
//! takes the place of the commits that it covers. A new manifest has the next number, and one atomic write makes it
//! count. So no row is ever lost or doubled, whatever moment a command is killed at.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `v1/_commits/date=D/KEY.stats.json` | the files of a trace: statistics |
//! | `v1/_commits/date=D/KEY.detail.json` | the same: spans and events |
//! | `v1/_manifest/date=D/00000007.json` | the day's files, and the commits that it covers; the highest number counts |
//!
//! A reader lists the commits first and the manifests after them, so it sees a commit at least once. It leaves out
//! commits that a manifest covers.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::schema::{FOLDER, Table, VERSION};
use crate::store::Store;

/// Tries to read a state that changes meanwhile.
const TRIES: usize = 10;

/// A file that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    /// From the store's root: `v1/spans/date=…/host=…/….parquet`.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
}

impl FileEntry {
    /// The name of its table, and the folder of its partition: `date=…/host=…`.
    pub(crate) fn parts(&self) -> Option<(&str, &str)> {
        let rest = self.path.strip_prefix(FOLDER)?.strip_prefix('/')?;
        let (table, rest) = rest.split_once('/')?;
        let (partition, _file) = rest.rsplit_once('/')?;
        Some((table, partition))
    }

    /// Its table.
    pub(crate) fn table(&self) -> Option<&'static Table> {
        Table::named(self.parts()?.0)
    }
}

/// The files of a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Commit {
    pub(crate) schema: u32,
    /// `KEY.stats` or `KEY.detail`.
    pub(crate) name: String,
    pub(crate) files: Vec<FileEntry>,
}

/// The files of a day.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) schema: u32,
    /// Names of the commits whose rows are in `files`, or were removed from them.
    pub(crate) covers: Vec<String>,
    pub(crate) files: Vec<FileEntry>,
}

/// A day, as it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Day {
    /// The number of its manifest; 0: it has none.
    pub(crate) number: u64,
    pub(crate) manifest: Manifest,
    /// Commits that the manifest does not cover.
    pub(crate) commits: Vec<Commit>,
    /// Names of commits that it covers, and that are still there.
    pub(crate) covered: Vec<String>,
    /// A commit or the manifest can't be read.
    pub(crate) is_damaged: bool,
}

impl Day {
    /// All files that count.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileEntry> {
        let commits = self.commits.iter().flat_map(|commit| &commit.files);
        self.manifest.files.iter().chain(commits)
    }
}

/// All days, by date, and what can't be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Days {
    pub(crate) days: BTreeMap<String, Day>,
    pub(crate) problems: Vec<String>,
}

pub(crate) fn commit_path(date: &str, name: &str) -> String {
    format!("{FOLDER}/_commits/date={date}/{name}.json")
}

pub(crate) fn manifest_path(date: &str, number: u64) -> String {
    format!("{FOLDER}/_manifest/date={date}/{number:08}.json")
}

/// The date and the name in a path of one of the two kinds.
fn date_and_name(path: &str) -> Option<(&str, &str)> {
    let mut parts = path.rsplit('/');
    let name = parts.next()?.strip_suffix(".json")?;
    let date = parts.next()?.strip_prefix("date=")?;
    Some((date, name))
}

/// Reads the state of a store.
///
/// # Errors
/// If it can't be listed. A commit or manifest that can't be read is a problem of its day.
pub(crate) fn read(store: &Store) -> anyhow::Result<Days> {
    until_whole(store, || read_once(store))
}

/// Reads until no file goes away meanwhile: until there is a value.
fn until_whole<T>(
    store: &Store,
    mut read: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    for _ in 0..TRIES {
        if let Some(whole) = read()? {
            return Ok(whole);
        }
    }
    bail!(
        "{}: it changes faster than it can be read: try again",
        store.name
    )
}

/// `None`: a file went away meanwhile.
fn read_once(store: &Store) -> anyhow::Result<Option<Days>> {
    let paths = |folder: &str| -> anyhow::Result<Vec<String>> {
        let found = store.list(&format!("{FOLDER}/{folder}"))?;
        let paths = found.into_iter().map(|meta| meta.location.to_string());
        Ok(paths.filter(|path| date_and_name(path).is_some()).collect())
    };
    // In this order: see the head of the file.
    let commits = paths("_commits")?;
    let manifests = paths("_manifest")?;
    let newest = newest(&manifests);
    let mut days = Days::default();
    let list: Vec<String> = newest.values().map(|(_, path)| (*path).clone()).collect();
    let texts = store.read_all(&list)?;
    for ((date, (number, path)), text) in newest.into_iter().zip(texts) {
        let Some(text) = text else { return Ok(None) };
        let day = days.days.entry(date.to_owned()).or_default();
        day.number = number;
        match parse::<Manifest>(&text) {
            Ok(manifest) => day.manifest = manifest,
            Err(error) => {
                day.is_damaged = true;
                days.problems.push(format!(
                    "{}: {error:#}: the day {date} is left out",
                    store.name_of(path)
                ));
            }
        }
    }
    let covered: BTreeMap<&str, HashSet<&str>> = days
        .days
        .iter()
        .map(|(date, day)| {
            (
                date.as_str(),
                day.manifest.covers.iter().map(String::as_str).collect(),
            )
        })
        .collect();
    let is_covered = |path: &String| {
        let (date, name) = date_and_name(path)?;
        covered.get(date).map(|names| names.contains(name))
    };
    let (old, new): (Vec<_>, Vec<_>) = commits
        .into_iter()
        .partition(|path| is_covered(path) == Some(true));
    let texts = store.read_all(&new)?;
    for (path, text) in new.iter().zip(texts) {
        let Some(text) = text else { return Ok(None) };
        let Some((date, _)) = date_and_name(path) else {
            continue;
        };
        let day = days.days.entry(date.to_owned()).or_default();
        match parse::<Commit>(&text) {
            // Without the manifest there is no way to know which commits of a day are valid.
            Ok(_) if day.is_damaged => {}
            Ok(commit) => day.commits.push(commit),
            Err(error) => {
                days.problems.push(format!(
                    "{}: {error:#}: its trace is left out",
                    store.name_of(path)
                ));
            }
        }
    }
    for path in &old {
        if let Some((date, name)) = date_and_name(path) {
            let day = days.days.entry(date.to_owned()).or_default();
            day.covered.push(name.to_owned());
        }
    }
    Ok(Some(days))
}

/// The newest manifest of each day, by date: its number and its path.
fn newest(manifests: &[String]) -> BTreeMap<&str, (u64, &String)> {
    let mut newest: BTreeMap<&str, (u64, &String)> = BTreeMap::new();
    for path in manifests {
        let Some((date, name)) = date_and_name(path) else {
            continue;
        };
        let Ok(number) = name.parse::<u64>() else {
            continue;
        };
        let known = newest.entry(date).or_insert((number, path));
        *known = (*known).max((number, path));
    }
    newest
}

/// Which of these commits of a day are there, or are covered by its manifest. Reads no other commit, because a day may
/// have very many.
///
/// # Errors
/// If the day can't be listed, or one of the commits or the manifest can't be read.
pub(crate) fn has<const N: usize>(
    store: &Store,
    date: &str,
    names: [&str; N],
) -> anyhow::Result<[bool; N]> {
    until_whole(store, || has_once(store, date, names))
}

/// `None`: the manifest went away meanwhile.
fn has_once<const N: usize>(
    store: &Store,
    date: &str,
    names: [&str; N],
) -> anyhow::Result<Option<[bool; N]>> {
    let damaged = |path: &str| {
        let path = store.name_of(path);
        format!("nothing is exported to a damaged day: {path}")
    };
    // In this order: see the head of the file.
    let paths = names.map(|name| commit_path(date, name));
    let commits = store.read_all(&paths)?;
    let manifests = store.list(&format!("{FOLDER}/_manifest/date={date}"))?;
    let manifests = manifests.into_iter().map(|meta| meta.location.to_string());
    let manifests: Vec<String> = manifests.collect();
    let mut covers = Vec::new();
    if let Some((_, path)) = newest(&manifests).into_values().next() {
        let text = store.read_all(std::slice::from_ref(path))?.pop().flatten();
        let Some(text) = text else { return Ok(None) };
        covers = parse::<Manifest>(&text)
            .with_context(|| damaged(path))?
            .covers;
    }
    let mut found = names.map(|name| covers.iter().any(|covered| covered == name));
    for ((found, path), text) in found.iter_mut().zip(paths).zip(commits) {
        if let Some(text) = text {
            parse::<Commit>(&text).with_context(|| damaged(&path))?;
            *found = true;
        }
    }
    Ok(Some(found))
}

fn parse<T: for<'a> Deserialize<'a>>(text: &[u8]) -> anyhow::Result<T> {
    #[derive(Deserialize)]
    struct Head {
        schema: u32,
    }
    let head: Head = serde_json::from_slice(text).context("damaged")?;
    if head.schema != VERSION {
        bail!(
            "it has schema version {}, and this fdr-fleet knows version {VERSION}",
            head.schema
        );
    }
    serde_json::from_slice(text).context("damaged")
}

/// Stores the next manifest of a day, which is valid from then on. `false`: another process has stored one meanwhile.
pub(crate) fn switch(
    store: &Store,
    date: &str,
    day: &Day,
    next: &Manifest,
) -> anyhow::Result<bool> {
    let text = serde_json::to_vec(next).context("a manifest")?;
    store.make(&manifest_path(date, day.number + 1), text)
}
