//! The page as one file that needs no server: the data stand in it, compressed. Short calls are joined until the file
//! is small enough, and the page says so.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use foldhash::HashSet;

use super::api::{self, TraceOf};
use super::curves;
use super::file_data::{Head, ReportOf, SlowCalls};
use super::filler::fill;
use super::index::Line;
use super::page;
use super::picture::Viewport;
use super::server::WaitingPeer;
use super::task_details;
use super::viewed::{MarkedRange, ViewedTrace};
use super::wire;
use crate::output_file::{self, Shape};
use crate::{trace, ui};

/// The most bytes of data, so that the file has 20 MB at most.
const MAX_BYTES: usize = 14_800_000;
/// Calls that are tried at first.
const FIRST_TRY: usize = 6_000_000;

/// Values of counters that are all written.
const MAX_VALUES: usize = 50_000;

/// Writes the page of these traces.
///
/// # Errors
/// If a trace can't be read, the file can't be written, or the data are too large whatever is joined.
pub(super) fn write(traces: &[Arc<ViewedTrace>], output: &Path, force: bool) -> anyhow::Result<()> {
    for viewed in traces {
        output_file::check_is_not(output, &viewed.path)?;
    }
    output_file::check(output, Shape::File, force)?;
    let mut answers = Answers::default();
    for viewed in traces {
        fill(&viewed.index, &*viewed.source);
        let report = viewed.report(&MarkedRange::default(), WaitingPeer::OURSELVES)?;
        answers.reports.push(serde_json::from_slice(&report)?);
        let slow = match trace::is_timeless(viewed.info()) {
            true => None,
            false => {
                let slow = viewed.slow(&MarkedRange::default(), WaitingPeer::OURSELVES)?;
                Some(serde_json::from_slice(&slow)?)
            }
        };
        answers.slow.push(slow);
    }
    let mut pixels: Vec<u64> = traces
        .iter()
        .map(|viewed| first_pixel(viewed, traces.len()))
        .collect();
    let packed = loop {
        let packed = pack(traces, &answers, &pixels)?;
        if packed.len() <= MAX_BYTES {
            break packed;
        }
        if pixels.iter().all(|&pixel| pixel > u64::MAX / 16) {
            bail!(
                "the names and events of these traces alone are too large for a page: name fewer traces"
            );
        }
        for pixel in &mut pixels {
            *pixel = pixel.saturating_mul(4).max(64);
        }
    };
    let page = page::with_data(&STANDARD.encode(&packed));
    output_file::write(output, force, |out| Ok(out.write_all(&page)?))?;
    let size = ui::size(page.len() as u64);
    let mut words = format!("{}: {size}", ui::path(output));
    for (viewed, &pixel) in traces.iter().zip(&pixels).filter(|(_, pixel)| **pixel > 0) {
        let time = ui::duration(viewed.info().clock.nanos(fdr_formats::Ticks(pixel)).0);
        let path = ui::path(&viewed.path);
        words.push_str(&format!(
            "; calls of {path} that are shorter than {time} are joined"
        ));
    }
    ui::complain(&words);
    Ok(())
}

/// The ticks below which calls are joined at first: as few as a share of the tries allows.
fn first_pixel(viewed: &ViewedTrace, traces: usize) -> u64 {
    let lines = || viewed.index.lines();
    let lowest = lines()
        .map(|line| line.pyramid.lowest().least)
        .max()
        .unwrap_or(0);
    let items = |pixel| {
        lines()
            .map(|line| line.pyramid.level(pixel).items())
            .sum::<usize>()
    };
    let mut pixel = lowest;
    while items(pixel) > FIRST_TRY / traces.max(1) && pixel < u64::MAX / 16 {
        pixel = pixel.saturating_mul(4).max(64);
    }
    pixel
}

/// What is computed once, whatever is joined.
#[derive(Default)]
struct Answers {
    reports: Vec<ReportOf>,
    slow: Vec<Option<SlowCalls>>,
}

fn pack(traces: &[Arc<ViewedTrace>], answers: &Answers, pixels: &[u64]) -> anyhow::Result<Vec<u8>> {
    let mut out = ZlibEncoder::new(Limited::default(), Compression::new(6));
    let tasks = traces.iter().map(|viewed| {
        let tasks = viewed.tasks();
        tasks.map_or_else(Default::default, |tasks| {
            task_details::all_tasks(viewed, tasks)
        })
    });
    let (tasks, left_out) = tasks.unzip();
    let given = traces.iter().map(|viewed| TraceOf::to_give_away(viewed));
    let head = serde_json::to_vec(&Head {
        info: api::info_of(given, None),
        reports: &answers.reports,
        slow: &answers.slow,
        joined: pixels,
        tasks,
        left_out,
    })?;
    let length = u32::try_from(head.len()).context("the names are too large for a page")?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&head)?;
    for (viewed, &pixel) in traces.iter().zip(pixels) {
        let mut bytes = Vec::new();
        let curves = curves::curves(&viewed.index, viewed.info(), curve_viewport(viewed, pixel));
        wire::put_curves(&mut bytes, viewed, &curves);
        let length = u32::try_from(bytes.len()).context("the counters are too large for a page")?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&bytes)?;
    }
    for (viewed, &pixel) in traces.iter().zip(pixels) {
        let viewport = Viewport {
            from: 0,
            to: u64::MAX,
            pixel,
        };
        for thread in 0..viewed.index.len() {
            let picture = viewed.picture(thread, viewport, &HashSet::default())?;
            let mut bytes = Vec::new();
            wire::put(&mut bytes, viewed, thread, &picture);
            out.write_all(&bytes)?;
        }
    }
    Ok(out.finish()?.0)
}

/// The values of counters that a file has: all of them, or as many as a screen can show.
fn curve_viewport(viewed: &ViewedTrace, pixel: u64) -> Viewport {
    let whole = viewed.index.span().unwrap_or_default();
    let values = |line: &Line| line.counters.len();
    let lines = viewed.index.lines();
    let is_many = lines.map(|line| values(&line)).sum::<usize>() > MAX_VALUES;
    let least = if is_many {
        whole.1.saturating_sub(whole.0) / 20_000
    } else {
        0
    };
    Viewport {
        from: 0,
        to: u64::MAX,
        pixel: pixel.max(least),
    }
}

/// A buffer that drops all further writes once its length has passed the limit.
#[derive(Default)]
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A length above the limit means that the data is too much.
        if self.0.len() <= MAX_BYTES {
            self.0.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
