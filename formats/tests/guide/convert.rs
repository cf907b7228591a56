//! The guide's third program, as the guide has it: the same trace in another format.

use std::fs::{self, OpenOptions};
use std::path::Path;

use fdr_formats::registry;
use fdr_formats::source::drive;
use fdr_formats::writer::{Kind, Output};
use fdr_formats::{Error, Losses};

pub(crate) fn convert(from: &Path, to: &Path, format: &str) -> Result<Losses, Error> {
    let source = fdr_formats::open(from)?;
    let target = registry::target(format).expect("one of registry::targets()");
    let output = match target.kind {
        Kind::Folder => {
            fs::create_dir(to)?;
            Output::Folder(to.to_owned())
        }
        Kind::File | Kind::Stream => {
            // Some writers go back and read. A file that exists is left as it is.
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).open(to)?;
            Output::File(file)
        }
    };
    let mut writer = (target.create)(output, source.info())?;
    drive(&*source, &mut *writer, &|_bytes_done| {})?;
    writer.finish()
}

fn main() -> Result<(), Error> {
    let from = std::env::args().nth(1).unwrap_or("app.fdr".into());
    let to = std::env::args().nth(2).unwrap_or("app.heph".into());
    let losses = convert(Path::new(&from), Path::new(&to), "heph")?;
    if !losses.is_empty() {
        eprintln!("not in the new trace: {losses}");
    }
    Ok(())
}
