//! Where traces go: the pattern of `FDR_OUT`, and the names that it gives. Must never let the
//! program's own name choose another folder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fdr_formats::registry::{FORMATS, Format, Opener};

use super::staged::is_open_file;

/// How much of the program's name is used, bytes. A file's name has 255, and the pattern, the pid and
/// a temporary suffix need some.
const LONGEST_PROGRAM: usize = 128;

/// A parsed pattern: always of a file, with an absolute folder if the folder at start was absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    folder: Vec<Piece>,
    file: Vec<Piece>,
    /// Whether folders are made that are not there.
    makes_folders: bool,
    /// The folder that must be there.
    needed: Option<PathBuf>,
    sort: Sort,
}

/// What has the name of all traces, where they have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// A file or a folder, or nothing yet.
    Regular,
    /// /dev/null: no trace is wanted.
    Null,
    /// A device, a pipe, a file that is open already: no trace can have its place.
    Other,
}

/// What the placeholders stand for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    /// `%e`, as [`program_name`] gives it.
    pub(crate) program: &'a str,
    /// `%p`.
    pub(crate) pid: u32,
    /// `%n`: the number of the dump, from 1.
    pub(crate) number: u64,
    /// `%t`: when the dump was made, seconds since 1970, UTC. Printed as `20261120T135501Z`.
    pub(crate) unix_time_s: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Program,
    Pid,
    Number,
    Time,
}

impl Output {
    /// Parses a pattern. `%e` is the program, `%p` its pid, `%n` the number of the dump, `%t` the
    /// time, `%%` a percent sign; `%n` and `%t` may stand in the file's name only. Where the pattern
    /// ends with `/`, or names a folder that exists, files in it get the default name
    /// `%e.%p.%n.<extension>`. A relative pattern is within `start`, the folder in which the program
    /// was started, wherever it goes later.
    ///
    /// Folders are made where the pattern ends with `/`, and where a placeholder is in their names. Others
    /// must be there (see [`Output::missing_folder`]).
    ///
    /// A pattern without `%n` is one file, which each dump replaces as a whole (see
    /// [`Output::is_numbered`]); one without `%p` is shared by a program and its children.
    ///
    /// # Errors
    /// One line, for people, without the name of the variable.
    pub(crate) fn parse(pattern: &OsStr, start: &Path, extension: &str) -> Result<Output, String> {
        let pattern = pattern.as_bytes();
        let is_bare = !pattern.contains(&b'/');
        let (folder, file) = match pattern.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => pattern.split_at(slash + 1),
            None => (&b""[..], pattern),
        };
        let mut folder = parse_pieces(folder)?;
        if folder.contains(&Piece::Number) || folder.contains(&Piece::Time) {
            return Err(
                "%n and %t can't be part of a folder's name, only of the file's".to_owned(),
            );
        }
        if !pattern.starts_with(b"/") {
            folder.insert(0, Piece::Text(start_text(start)));
        }
        let mut file = parse_pieces(file)?;
        let needed = (!is_bare && !file.is_empty()).then(|| before_placeholders(&folder));
        let is_given = folder.iter().all(|piece| matches!(piece, Piece::Text(_)));
        let makes_folders = file.is_empty() || !is_given;
        let sort = sort_of(&folder, &file);
        if names_a_folder(&folder, &file) {
            folder.append(&mut file);
            folder.push(Piece::Text(b"/".to_vec()));
        }
        if file.is_empty() {
            file = default_file(extension);
        }
        Ok(Output {
            folder,
            file,
            makes_folders,
            needed,
            sort,
        })
    }

    /// What is used without a pattern: the default name, in the folder `start`.
    pub(crate) fn default_in(start: &Path, extension: &str) -> Output {
        Output {
            folder: vec![Piece::Text(start_text(start))],
            file: default_file(extension),
            makes_folders: false,
            needed: None,
            sort: Sort::Regular,
        }
    }

    /// Whether folders are made that are not there. Async-signal-safe.
    pub(crate) fn makes_folders(&self) -> bool {
        self.makes_folders
    }

    /// The folder that must be there and is not.
    pub(crate) fn missing_folder(&self) -> Option<&Path> {
        self.needed.as_deref().filter(|folder| !folder.is_dir())
    }

    /// Whether traces are not wanted: they go to /dev/null. Async-signal-safe.
    pub(crate) fn is_null(&self) -> bool {
        self.sort == Sort::Null
    }

    /// Whether traces have the name of a device, a pipe or the like, and are wanted.
    pub(crate) fn is_device(&self) -> bool {
        self.sort == Sort::Other
    }

    /// Whether what has the name of all traces is no file, and not to be replaced. Nothing else is put into
    /// its folder either. Async-signal-safe.
    pub(crate) fn is_no_file(&self) -> bool {
        self.sort != Sort::Regular
    }

    /// The file of one dump.
    pub(crate) fn path(&self, names: &Names<'_>) -> PathBuf {
        let mut path = Vec::new();
        self.write_folder(names, &mut |part| path.extend_from_slice(part));
        self.write_file(names, &mut |part| path.extend_from_slice(part));
        OsString::from_vec(path).into()
    }

    /// The folder of all dumps, part by part, with a slash at its end. Async-signal-safe.
    pub(crate) fn write_folder(&self, names: &Names<'_>, out: &mut dyn FnMut(&[u8])) {
        expand(&self.folder, names, out);
    }

    /// The file of one dump in that folder, part by part. Async-signal-safe.
    pub(crate) fn write_file(&self, names: &Names<'_>, out: &mut dyn FnMut(&[u8])) {
        expand(&self.file, names, out);
    }

    /// The same names with another extension.
    pub(crate) fn with_extension(mut self, extension: &str) -> Output {
        if self.is_no_file() {
            return self;
        }
        let mut end = format!(".{extension}").into_bytes();
        let only = self.file.len() == 1;
        if let Some(Piece::Text(text)) = self.file.last_mut() {
            let dot = text.iter().rposition(|&byte| byte == b'.');
            text.truncate(dot.filter(|&at| at > 0 || !only).unwrap_or(text.len()));
            text.append(&mut end);
        } else {
            self.file.push(Piece::Text(end));
        }
        self
    }

    /// The same for children of a fork: where no name has the pid, theirs get it before the extension.
    /// Otherwise the last of them would replace what the others and their parent have written.
    pub(crate) fn of_children(mut self) -> Output {
        let has_pid = self.folder.contains(&Piece::Pid) || self.file.contains(&Piece::Pid);
        if has_pid || self.is_no_file() {
            return self;
        }
        let mut extension = Vec::new();
        if let Some(Piece::Text(text)) = self.file.last_mut() {
            let dot = text.iter().rposition(|&byte| byte == b'.');
            extension = dot.map(|at| text.split_off(at)).unwrap_or_default();
        }
        let dot = Piece::Text(b".".to_vec());
        self.file.extend([dot, Piece::Pid, Piece::Text(extension)]);
        self
    }

    /// The folder of all dumps, with a NUL for each pid.
    pub(crate) fn folder_template(&self, program: &str) -> Vec<u8> {
        let mut template = Vec::new();
        for piece in &self.folder {
            match piece {
                Piece::Text(text) => template.extend_from_slice(text),
                Piece::Pid => template.push(0),
                Piece::Program => template.extend_from_slice(program.as_bytes()),
                // They are in no folder's name.
                Piece::Number | Piece::Time => {}
            }
        }
        while template.len() > 1 && template.ends_with(b"/") {
            template.pop();
        }
        template
    }

    /// The folder of all dumps.
    #[cfg(test)]
    pub(crate) fn folder(&self, program: &str, pid: u32) -> PathBuf {
        let names = Names {
            program,
            pid,
            number: 0,
            unix_time_s: 0,
        };
        // Normalises the slashes, so that "a//" and "a/" are one folder.
        let mut path = Vec::new();
        self.write_folder(&names, &mut |part| path.extend_from_slice(part));
        PathBuf::from(OsString::from_vec(path))
            .components()
            .collect()
    }

    /// Whether each dump has a file of its own. Otherwise a later dump replaces an earlier one's file,
    /// which the line about it should say.
    pub(crate) fn is_numbered(&self) -> bool {
        self.file.contains(&Piece::Number)
    }
}

/// The folder at start as the beginning of a path. As text: a percent sign in it means itself.
fn start_text(start: &Path) -> Vec<u8> {
    let mut start = start.as_os_str().as_bytes().to_vec();
    if !start.ends_with(b"/") {
        start.push(b'/');
    }
    start
}

/// `%e.%p.%n.<extension>`.
fn default_file(extension: &str) -> Vec<Piece> {
    let text = |text: String| Piece::Text(text.into_bytes());
    let (dot, end) = (text(".".to_owned()), text(format!(".{extension}")));
    vec![
        Piece::Program,
        dot.clone(),
        Piece::Pid,
        dot,
        Piece::Number,
        end,
    ]
}

/// The folder up to the first part of the path that has a placeholder in it.
fn before_placeholders(folder: &[Piece]) -> PathBuf {
    let mut path = Vec::new();
    for piece in folder {
        match piece {
            Piece::Text(text) => path.extend_from_slice(text),
            _ => {
                let slash = path.iter().rposition(|&byte| byte == b'/');
                path.truncate(slash.map_or(0, |at| at + 1));
                break;
            }
        }
    }
    OsString::from_vec(path).into()
}

/// What has the name that a pattern without placeholders is.
fn sort_of(folder: &[Piece], file: &[Piece]) -> Sort {
    let is_given = folder.iter().all(|piece| matches!(piece, Piece::Text(_)));
    let [Piece::Text(file)] = file else {
        return Sort::Regular;
    };
    if !is_given {
        return Sort::Regular;
    }
    let path = before_placeholders(folder).join(OsStr::from_bytes(file));
    let Ok(known) = fs::metadata(&path) else {
        return Sort::Regular;
    };
    let kind = known.file_type();
    if kind.is_char_device() && known.rdev() == libc::makedev(1, 3) {
        Sort::Null
    } else if kind.is_dir() || (kind.is_file() && !is_open_file(&path)) {
        Sort::Regular
    } else {
        Sort::Other
    }
}

/// Whether a pattern without placeholders is a folder on this machine now, and not itself a trace of an
/// earlier run.
fn names_a_folder(folder: &[Piece], file: &[Piece]) -> bool {
    let mut path = Vec::new();
    for piece in folder.iter().chain(file) {
        let Piece::Text(text) = piece else {
            return false;
        };
        path.extend_from_slice(text);
    }
    let path = Path::new(OsStr::from_bytes(&path));
    let is_trace =
        |format: &Format| matches!(format.opener, Opener::Folder { probe, .. } if probe(path));
    !file.is_empty() && path.is_dir() && !FORMATS.iter().any(is_trace)
}

fn parse_pieces(pattern: &[u8]) -> Result<Vec<Piece>, String> {
    const KNOWN: &str = "%e (program), %p (pid), %n (number of the dump), %t (time) and %%";
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut bytes = pattern.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            text.push(byte);
            continue;
        }
        let piece = match bytes.next() {
            Some(b'%') => {
                text.push(b'%');
                continue;
            }
            Some(b'e') => Piece::Program,
            Some(b'p') => Piece::Pid,
            Some(b'n') => Piece::Number,
            Some(b't') => Piece::Time,
            Some(other) => {
                return Err(format!(
                    "unknown %{}; known are {KNOWN}",
                    other.escape_ascii()
                ));
            }
            None => return Err(format!("it ends with a single %; known are {KNOWN}")),
        };
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(piece);
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

fn expand(pieces: &[Piece], names: &Names<'_>, out: &mut dyn FnMut(&[u8])) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out(text),
            Piece::Program => out(names.program.as_bytes()),
            Piece::Pid => decimal(u64::from(names.pid), 1, out),
            Piece::Number => decimal(names.number, 1, out),
            Piece::Time => utc(names.unix_time_s, out),
        }
    }
}

/// A number with at least so many digits, at most 20. Async-signal-safe.
pub(crate) fn decimal(mut number: u64, least: usize, out: &mut dyn FnMut(&[u8])) {
    let mut digits = [b'0'; 20];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        if number == 0 && used >= least {
            break;
        }
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        used += 1;
    }
    out(digits.get(digits.len() - used..).unwrap_or(&[]));
}

/// The program's name, fit for a file's: of the executable, else of the first argument. Reads
/// /proc/self/exe; not async-signal-safe.
pub(crate) fn program_name() -> String {
    let executable = std::env::current_exe().ok();
    let path = executable.or_else(|| std::env::args_os().next().map(PathBuf::from));
    sanitised(
        path.as_deref()
            .and_then(Path::file_name)
            .unwrap_or_default(),
    )
}

/// `name` without what a file's name can't or shouldn't hold.
fn sanitised(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    // What the kernel appends where the executable was replaced while it runs.
    let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
    let mut clean = String::new();
    for c in name.chars() {
        let bad = c == '/' || c.is_control() || c == char::REPLACEMENT_CHARACTER;
        // A dot at the start would hide the file.
        let bad = bad || (c == '.' && clean.is_empty());
        let c = if bad { '_' } else { c };
        if clean.len() + c.len_utf8() > LONGEST_PROGRAM {
            break;
        }
        clean.push(c);
    }
    if clean.is_empty() {
        "program".to_owned()
    } else {
        clean
    }
}

/// `20261120T135501Z`: sorts by time, and needs no escaping.
fn utc(unix_time_s: u64, out: &mut dyn FnMut(&[u8])) {
    let (days, s) = (unix_time_s / 86_400, unix_time_s % 86_400);
    // Years of 365.2425 days begin in March here, so that the leap day is a year's last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 {
        (year, month + 3)
    } else {
        (year + 1, month - 9)
    };
    let year = year + era * 400;
    let (h, min, s) = (s / 3600, s / 60 % 60, s % 60);
    decimal(year, 4, out);
    decimal(month, 2, out);
    decimal(day_of_month, 2, out);
    out(b"T");
    [h, min, s].into_iter().for_each(|two| decimal(two, 2, out));
    out(b"Z");
}

#[cfg(test)]
mod tests;
