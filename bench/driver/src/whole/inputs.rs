//! What the workloads read: a tree of texts, a picture, a script. The same bytes each time, so that runs can be
//! compared.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use serde::Deserialize;

use crate::Result;

/// The input of a workload.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Input {
    #[default]
    Nothing,
    /// A folder of folders of texts.
    Texts,
    /// A folder of folders with this many empty files in all.
    Files(u32),
    /// A square PNG, with this many pixels on each side.
    Picture(u32),
    /// A file beside the list of workloads.
    Script(String),
}

impl Input {
    /// Makes it below the folder, and says where.
    ///
    /// # Errors
    /// If it can't be written.
    pub(super) fn make(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join("input");
        match self {
            Input::Nothing => {}
            Input::Texts => texts(&path)?,
            Input::Files(count) => empty_files(&path, *count)?,
            Input::Picture(side) => picture(&path, *side)?,
            Input::Script(file) => return Ok(super::workload::folder().join(file)),
        }
        Ok(path)
    }
}

const FOLDERS: u32 = 20;
const FILES: u32 = 25;
/// Lines of a file.
const LINES: u32 = 5000;

const WORDS: [&str; 16] = [
    "the", "flight", "data", "recorder", "stays", "in", "every", "stream", "of", "starter",
    "Records", "and", "nothing", "is", "lost", "stronger",
];

fn texts(path: &Path) -> Result<()> {
    let mut numbers = Rng::with_seed(1);
    for folder in 0..FOLDERS {
        let folder = path.join(format!("folder{folder}"));
        fs::create_dir_all(&folder)?;
        for file in 0..FILES {
            let mut text = String::new();
            for line in 0..LINES {
                let _ = write!(text, "{line}:");
                for _ in 0..numbers.u32(..12) {
                    let _ = write!(text, " {}", WORDS[numbers.usize(..WORDS.len())]);
                }
                text.push('\n');
            }
            fs::write(folder.join(format!("file{file}.txt")), text)?;
        }
    }
    Ok(())
}

fn empty_files(path: &Path, count: u32) -> Result<()> {
    const IN_FOLDER: u32 = 500;
    for number in 0..count {
        let folder = path.join(format!("folder{}", number / IN_FOLDER));
        if number % IN_FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        let word = WORDS[number as usize % WORDS.len()];
        File::create(folder.join(format!("{word}{number}.txt")))?;
    }
    Ok(())
}

/// A PNG of 8-bit RGB: slopes with noise, as photographs have them.
fn picture(path: &Path, side: u32) -> Result<()> {
    let mut numbers = Rng::with_seed(2);
    let mut pixels = Vec::new();
    for y in 0..side {
        for x in 0..side {
            let noise = numbers.u8(..8);
            let slope = |by: u32| (by * 255 / side) as u8;
            pixels.extend([
                slope(x) ^ noise,
                slope(y),
                slope((x + y) / 2).wrapping_add(noise),
            ]);
        }
    }
    let mut encoder = png::Encoder::new(File::create(path)?, side, side);
    encoder.set_color(png::ColorType::Rgb);
    Ok(encoder.write_header()?.write_image_data(&pixels)?)
}
