//! Folders as one input: each file is a line `=== NAME` and its bytes. Nothing that a folder is
//! unpacked into can lie outside it.

use std::fs;
use std::io;
use std::path::Path;

const MARK: &[u8] = b"\n=== ";

/// The files of a folder as one input.
///
/// # Errors
/// What the operating system says.
#[allow(
    dead_code,
    reason = "the fuzzer and the tests of the formats each use a part"
)]
pub(crate) fn pack(folder: &Path) -> io::Result<Vec<u8>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut bytes = Vec::new();
    for path in paths.iter().filter(|path| path.is_file()) {
        bytes.extend(MARK);
        bytes.extend(path.file_name().unwrap_or_default().as_encoded_bytes());
        bytes.push(b'\n');
        bytes.extend(fs::read(path)?);
    }
    Ok(bytes)
}

/// Writes the files of an input into a folder. Skips a file whose name could lead out of the folder, or exists there
/// already.
///
/// # Errors
/// What the operating system says.
pub(crate) fn unpack(input: &[u8], folder: &Path) -> io::Result<()> {
    let mut rest = input;
    while let Some(at) = find(rest, MARK) {
        rest = &rest[at + MARK.len()..];
        let part = &rest[..find(rest, MARK).unwrap_or(rest.len())];
        let Some(line) = part.iter().position(|&byte| byte == b'\n') else {
            continue;
        };
        let (name, bytes) = (&part[..line], &part[line + 1..]);
        let name = harmless(name);
        if let Some(name) = name.filter(|name| !folder.join(name).exists()) {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}

fn harmless(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let known = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let fits = (1..=64).contains(&name.len()) && !name.starts_with('.');
    (fits && name.chars().all(known)).then_some(name)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
