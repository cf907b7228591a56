//! Many files changed as one: each new text is written beside its file, and only when all are written do they take
//! their places.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};

/// A file that is to have another text.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Texts that lie beside their files. Dropped, they are gone.
struct GeneratedFiles(Vec<(PathBuf, PathBuf)>);

impl Drop for GeneratedFiles {
    fn drop(&mut self) {
        for (temporary, _) in &self.0 {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes all changes in their order. Signals that end the process wait until then.
///
/// # Errors
/// If a new file cannot be written; then no file has changed. If a new file cannot replace the old one; then the files
/// before it have been replaced.
pub(crate) fn write(changes: &[&Change]) -> anyhow::Result<()> {
    let mut ending = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        ending.add(signal);
    }
    let before = ending.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)?;
    let result = write_all(changes);
    before.thread_set_mask()?;
    result
}

fn write_all(changes: &[&Change]) -> anyhow::Result<()> {
    let mut written = GeneratedFiles(Vec::new());
    for change in changes {
        let temporary = temporary(&change.path);
        let file = create(&temporary).with_context(|| temporary.display().to_string())?;
        written.0.push((temporary, change.path.clone()));
        put(file, change).with_context(|| {
            let path = change.path.display();
            format!("{path}: cannot be written, and no file has changed")
        })?;
    }
    while !written.0.is_empty() {
        let (temporary, path) = &written.0[0];
        fs::rename(temporary, path).with_context(|| {
            let path = path.display();
            format!("{path}: cannot be replaced; run the same command again when it can")
        })?;
        written.0.remove(0);
    }
    Ok(())
}

fn put(mut file: File, change: &Change) -> std::io::Result<()> {
    file.write_all(change.text.as_bytes())?;
    file.set_permissions(fs::metadata(&change.path)?.permissions())?;
    file.sync_all()
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// A name beside the file that no program takes for a source.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.cargo-fdr", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_or_none() {
        let folder = std::env::temp_dir().join(format!("cargo-fdr-write-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = |name: &str| folder.join(name);
        fs::write(path("a"), "old a").expect("a file");
        fs::write(path("b"), "old b").expect("a file");
        let change = |name: &str, text: &str| Change {
            path: path(name),
            text: text.to_owned(),
        };
        let error =
            write(&[&change("a", "new"), &change("missing", "new")]).expect_err("no such file");
        assert!(
            format!("{error:#}").contains("no file has changed"),
            "{error:#}"
        );
        assert_eq!(fs::read_to_string(path("a")).expect("a"), "old a");
        write(&[&change("a", "new a"), &change("b", "new b")]).expect("both");
        assert_eq!(fs::read_to_string(path("a")).expect("a"), "new a");
        assert_eq!(fs::read_to_string(path("b")).expect("b"), "new b");
        assert_eq!(
            fs::read_dir(&folder).expect("a folder").count(),
            2,
            "nothing is left over"
        );
        fs::remove_dir_all(&folder).expect("removed");
    }
}
