//! The counters of a trace for the page: each as a whole, and its curve in a stretch of time.

use std::collections::BTreeMap;

use fdr_formats::TraceInfo;
use serde::Serialize;

use super::counters::{Values, thin};
use super::index::Index;
use super::picture::Viewport;

/// What a page knows of a counter as a whole.
#[derive(Serialize)]
pub(super) struct CounterOf {
    /// The name; of several that are equal, the first.
    id: u32,
    values: u64,
    least: f64,
    greatest: f64,
    threads: usize,
}

/// The values of a counter in a stretch of time.
pub(super) struct Curve {
    pub(super) id: u32,
    pub(super) values: Vec<Values>,
    /// Ticks within which values are joined, for want of memory.
    pub(super) coarse: u64,
}

/// Maps the id of each name to the first id with the same text. A program may set one counter at several places.
fn first_names(info: &TraceInfo) -> BTreeMap<u32, u32> {
    let mut of_text: BTreeMap<&str, u32> = BTreeMap::new();
    let named = info
        .functions
        .iter()
        .filter(|function| !function.name.is_empty());
    let named = named.map(|function| (function.id.0, function.name.as_str()));
    named
        .map(|(id, name)| (id, *of_text.entry(name).or_insert(id)))
        .collect()
}

/// The counters of a trace.
pub(super) fn of_trace(index: &Index, info: &TraceInfo) -> Vec<CounterOf> {
    let first = first_names(info);
    let mut all: BTreeMap<u32, CounterOf> = BTreeMap::new();
    for line in index.lines() {
        let mut seen = Vec::new();
        for (name, series) in &line.counters.series {
            let id = first.get(name).copied().unwrap_or(*name);
            let counter = all.entry(id).or_insert(CounterOf {
                id,
                values: 0,
                least: f64::INFINITY,
                greatest: f64::NEG_INFINITY,
                threads: 0,
            });
            counter.values += series.count;
            if let Some(whole) = series.whole {
                counter.least = counter.least.min(whole.least);
                counter.greatest = counter.greatest.max(whole.greatest);
            }
            if !seen.contains(&id) {
                seen.push(id);
                counter.threads += 1;
            }
        }
    }
    all.into_values().collect()
}

/// The curves of all counters in a stretch of time: values of all threads in the order of time.
pub(super) fn curves(index: &Index, info: &TraceInfo, viewport: Viewport) -> Vec<Curve> {
    let first = first_names(info);
    let mut all: BTreeMap<u32, Curve> = BTreeMap::new();
    for line in index.lines() {
        for (name, series) in &line.counters.series {
            let id = first.get(name).copied().unwrap_or(*name);
            let curve = all.entry(id).or_insert(Curve {
                id,
                values: Vec::new(),
                coarse: 0,
            });
            curve
                .values
                .extend(series.between(viewport.from, viewport.to));
            curve.coarse = curve.coarse.max(series.coarse);
        }
    }
    for curve in all.values_mut() {
        curve
            .values
            .sort_by_key(|values| (values.until, values.from));
        // Of what was set before the stretch, only the latest still holds.
        let before = curve
            .values
            .partition_point(|values| values.until < viewport.from);
        let values = curve.values.get(before.saturating_sub(1)..).unwrap_or(&[]);
        curve.values = thin(values.iter().copied(), viewport.pixel);
    }
    all.into_values().collect()
}
