//! The names of traces: the pattern of `FDR_OUT`, and the paths that the pattern gives. The program's own name
//! must never choose another folder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fdr_formats::text::owned;
use fdr_formats::utc::Utc;

use super::staged::is_open_file;

/// How many bytes of the program's name are used. A file's name may have 255 bytes, and the pattern, the pid
/// and a temporary suffix need some of them.
const MAX_PROGRAM: usize = 128;

/// A parsed pattern. It always names a file. Its folder is absolute if the folder at start was absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    folder: Pattern,
    file: Pattern,
    /// Whether missing folders are made.
    makes_folders: bool,
    /// The folder that must exist.
    needed: Option<OsString>,
    sort: Sort,
}

/// The kind of the object that has the name of all traces, if they have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// A file, a folder, or no object yet.
    Regular,
    /// /dev/null, so no trace is wanted.
    Null,
    /// A device, a pipe, or a file that is open already. No trace can replace it.
    Other,
}

/// The values of the placeholders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    /// `%e`, as [`program_name`] gives it.
    pub(crate) program: &'a str,
    /// `%p`.
    pub(crate) pid: u32,
    /// `%n`: the number of the dump, from 1.
    pub(crate) number: u64,
    /// `%t`: the time of the dump, in seconds since 1970, UTC. Printed as `20261120T135501Z`.
    pub(crate) unix_time_s: u64,
}

/// A text in which a NUL and a letter stand for a placeholder. No path holds a NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(Vec<u8>);

/// The placeholders, as [`Output::parse`] has them.
const PROGRAM: u8 = b'e';
const PID: u8 = b'p';
const NUMBER: u8 = b'n';
const TIME: u8 = b't';

impl Output {
    /// Parses a pattern. `%e` is the program, `%p` its pid, `%n` the number of the dump, `%t` the time, `%%` a
    /// percent sign. `%n` and `%t` may stand only in the file's name. If the pattern ends with `/` or names an
    /// existing folder, files in that folder get the default name `%e.%p.%n.<extension>`. A relative pattern
    /// counts from `start`, the folder in which the program was started.
    ///
    /// Missing folders are made if the pattern ends with `/`, and if their names have a placeholder. Other
    /// folders must exist (see [`Output::missing_folder`]).
    ///
    /// A pattern without `%n` names one file, which each dump replaces as a whole (see
    /// [`Output::is_numbered`]). A program and its children share the file of a pattern without `%p`.
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
        let begin = match pattern.starts_with(b"/") {
            true => Vec::new(),
            false => start_text(start),
        };
        let mut folder = Pattern::parse(begin, folder)?;
        if folder.has(NUMBER) || folder.has(TIME) {
            return Err(owned(
                "%n and %t can't be part of a folder's name, only of the file's",
            ));
        }
        let mut file = Pattern::parse(Vec::new(), file)?;
        let is_default = file.0.is_empty();
        let needed = (!is_bare && !is_default).then(|| folder.before_placeholders());
        let makes_folders = is_default || !folder.is_literal();
        let sort = sort_of(&folder, &file);
        let is_folder = folder.path_with(&file).is_some_and(|path| path.is_dir());
        if is_folder {
            folder.0.append(&mut file.0);
            folder.0.push(b'/');
        }
        if is_default || is_folder {
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

    /// The names without a pattern: the default name in the folder `start`.
    pub(crate) fn default_in(start: &Path, extension: &str) -> Output {
        Output {
            folder: Pattern(start_text(start)),
            file: default_file(extension),
            makes_folders: false,
            needed: None,
            sort: Sort::Regular,
        }
    }

    /// The same in a folder that is made if it is missing.
    pub(crate) fn default_in_new(folder: &Path, extension: &str) -> Output {
        Output {
            makes_folders: true,
            ..Output::default_in(folder, extension)
        }
    }

    /// Whether missing folders are made. Async-signal-safe.
    pub(crate) fn makes_folders(&self) -> bool {
        self.makes_folders
    }

    /// The folder that must exist and does not.
    pub(crate) fn missing_folder(&self) -> Option<&Path> {
        let needed = self.needed.as_deref().map(Path::new);
        needed.filter(|folder| !folder.is_dir())
    }

    /// Whether no traces are wanted, because they go to /dev/null. Async-signal-safe.
    pub(crate) fn is_null(&self) -> bool {
        self.sort == Sort::Null
    }

    /// Whether traces are wanted and have the name of a device, a pipe or the like.
    pub(crate) fn is_device(&self) -> bool {
        self.sort == Sort::Other
    }

    /// Whether an object that is no file has the name of all traces. No trace replaces it, and nothing is put
    /// into its folder. Async-signal-safe.
    pub(crate) fn is_no_file(&self) -> bool {
        self.sort != Sort::Regular
    }

    /// The file of one dump.
    pub(crate) fn path(&self, names: &Names<'_>) -> PathBuf {
        let mut path = Vec::new();
        let out = &mut |part: &[u8]| path.extend_from_slice(part);
        self.write_folder(names, out);
        self.write_file(names, out);
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

    /// Replaces the extension of the names.
    pub(crate) fn with_extension(&self, extension: &str) -> Output {
        let mut output = self.clone();
        if self.is_no_file() {
            return output;
        }
        let file = &mut output.file.0;
        // A dot at the start of a name begins no extension.
        if let Some(dot) = self.file.last_dot().filter(|&at| at > 0) {
            file.truncate(dot);
        }
        file.push(b'.');
        file.extend_from_slice(extension.as_bytes());
        output
    }

    /// The names for children of a fork. If no name has the pid, the pid is put before the extension. Otherwise
    /// the last child would replace the traces of its parent and of the other children.
    #[inline(never)]
    pub(crate) fn of_children(&self) -> Output {
        let mut output = self.clone();
        if self.folder.has(PID) || self.file.has(PID) || self.is_no_file() {
            return output;
        }
        let file = &mut output.file.0;
        let end = self.file.last_dot().unwrap_or(file.len());
        let extension = file.split_off(end);
        file.extend_from_slice(&[b'.', 0, PID]);
        file.extend_from_slice(&extension);
        output
    }

    /// The folder of all dumps, with a NUL for each pid.
    pub(crate) fn folder_template(&self, program: &str) -> Vec<u8> {
        let mut template = Vec::new();
        // A folder's name has no other placeholders.
        self.folder.expand(&mut |part| match part {
            Part::Text(text) => template.extend_from_slice(text),
            Part::Placeholder(PROGRAM) => template.extend_from_slice(program.as_bytes()),
            Part::Placeholder(_) => template.push(0),
        });
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
        // Joins slashes, so "a//" and "a/" are one folder.
        let mut path = Vec::new();
        self.write_folder(&names, &mut |part| path.extend_from_slice(part));
        PathBuf::from(OsString::from_vec(path))
            .components()
            .collect()
    }

    /// Whether each dump has a file of its own. Otherwise a later dump replaces the file of an earlier one, and
    /// the line about the dump should say so.
    pub(crate) fn is_numbered(&self) -> bool {
        self.file.has(NUMBER)
    }
}

/// The folder at start, as the beginning of a path. It is text, so a percent sign in it has no special meaning.
fn start_text(start: &Path) -> Vec<u8> {
    let mut start = start.as_os_str().as_bytes().to_vec();
    if !start.ends_with(b"/") {
        start.push(b'/');
    }
    start
}

/// `%e.%p.%n.<extension>`.
fn default_file(extension: &str) -> Pattern {
    let mut file = vec![0, PROGRAM, b'.', 0, PID, b'.', 0, NUMBER, b'.'];
    file.extend_from_slice(extension.as_bytes());
    Pattern(file)
}

/// The kind of the object whose name is this pattern, which has no placeholders.
fn sort_of(folder: &Pattern, file: &Pattern) -> Sort {
    let Some(path) = folder.path_with(file) else {
        return Sort::Regular;
    };
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

/// A part of a pattern.
enum Part<'a> {
    Text(&'a [u8]),
    Placeholder(u8),
}

impl Pattern {
    /// The pattern behind the text `begin`.
    fn parse(begin: Vec<u8>, pattern: &[u8]) -> Result<Pattern, String> {
        const PLACEHOLDERS: &str =
            "%e (program), %p (pid), %n (number of the dump), %t (time) and %%";
        let mut text = begin;
        let mut bytes = pattern.iter().copied();
        while let Some(byte) = bytes.next() {
            match byte {
                0 => return Err(owned("it holds a NUL")),
                b'%' => match bytes.next() {
                    Some(b'%') => text.push(b'%'),
                    Some(known @ (PROGRAM | PID | NUMBER | TIME)) => {
                        text.extend_from_slice(&[0, known]);
                    }
                    Some(other) => {
                        return Err(format!(
                            "unknown %{}; known are {PLACEHOLDERS}",
                            other.escape_ascii()
                        ));
                    }
                    None => {
                        return Err(format!("it ends with a single %; known are {PLACEHOLDERS}"));
                    }
                },
                _ => text.push(byte),
            }
        }
        Ok(Pattern(text))
    }

    /// Hands out the parts, one after the other. Async-signal-safe.
    #[inline(never)]
    fn expand(&self, out: &mut dyn FnMut(Part<'_>)) {
        let mut parts = self.0.split(|&byte| byte == 0);
        out(Part::Text(parts.next().unwrap_or_default()));
        for part in parts {
            if let Some((&placeholder, text)) = part.split_first() {
                out(Part::Placeholder(placeholder));
                out(Part::Text(text));
            }
        }
    }

    /// Whether it has that placeholder. Async-signal-safe.
    fn has(&self, placeholder: u8) -> bool {
        self.0.windows(2).any(|pair| pair == [0, placeholder])
    }

    /// Whether it has no placeholder.
    fn is_literal(&self) -> bool {
        !self.0.contains(&0)
    }

    /// Where the last dot behind all placeholders is.
    fn last_dot(&self) -> Option<usize> {
        let at = self.0.iter().rposition(|&byte| byte == b'.' || byte == 0)?;
        (self.0.get(at) == Some(&b'.')).then_some(at)
    }

    /// The folder before the first part of the path with a placeholder.
    fn before_placeholders(&self) -> OsString {
        let given = self.0.split(|&byte| byte == 0).next().unwrap_or_default();
        let length = match given.len() == self.0.len() {
            true => given.len(),
            false => given
                .iter()
                .rposition(|&byte| byte == b'/')
                .map_or(0, |at| at + 1),
        };
        OsStr::from_bytes(given.get(..length).unwrap_or_default()).into()
    }

    /// The path of the file in this folder. `None`: the folder's or the file's pattern has a placeholder, or the file's
    /// pattern is empty.
    fn path_with(&self, file: &Pattern) -> Option<PathBuf> {
        if file.0.is_empty() || !self.is_literal() || !file.is_literal() {
            return None;
        }
        let mut path = self.0.clone();
        path.extend_from_slice(&file.0);
        Some(OsString::from_vec(path).into())
    }
}

#[inline(never)]
fn expand(pattern: &Pattern, names: &Names<'_>, out: &mut dyn FnMut(&[u8])) {
    pattern.expand(&mut |part| match part {
        Part::Text(text) => out(text),
        Part::Placeholder(PROGRAM) => out(names.program.as_bytes()),
        Part::Placeholder(PID) => decimal(u64::from(names.pid), 1, out),
        Part::Placeholder(NUMBER) => decimal(names.number, 1, out),
        Part::Placeholder(_) => utc(names.unix_time_s, out),
    });
}

/// Writes a number with at least `least` digits and at most 20. Async-signal-safe.
#[inline(never)]
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

/// The program's name in a form that a file's name may have. It is the name of the executable, otherwise of the
/// first argument. Reads /proc/self/exe. Not async-signal-safe.
pub(crate) fn program_name() -> String {
    let executable = std::env::current_exe().ok();
    let path = executable.or_else(|| std::env::args_os().next().map(PathBuf::from));
    sanitised(
        path.as_deref()
            .and_then(Path::file_name)
            .unwrap_or_default(),
    )
}

/// `name` without characters that a file's name can't or shouldn't hold.
fn sanitised(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    // The kernel appends this if the executable was replaced while it runs.
    let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
    let mut clean = String::new();
    for c in name.chars() {
        let bad = c == '/' || c.is_control() || c == char::REPLACEMENT_CHARACTER;
        // A dot at the start would hide the file.
        let bad = bad || (c == '.' && clean.is_empty());
        let c = if bad { '_' } else { c };
        if clean.len() + c.len_utf8() > MAX_PROGRAM {
            break;
        }
        clean.push(c);
    }
    if clean.is_empty() {
        owned("program")
    } else {
        clean
    }
}

/// Writes `20261120T135501Z`, which sorts by time and needs no escaping.
fn utc(unix_time_s: u64, out: &mut dyn FnMut(&[u8])) {
    let at = Utc::from_unix(unix_time_s);
    decimal(at.year, 4, out);
    decimal(at.month, 2, out);
    decimal(at.day, 2, out);
    out(b"T");
    let time = [at.hour, at.minute, at.second];
    time.into_iter().for_each(|two| decimal(two, 2, out));
    out(b"Z");
}

#[cfg(test)]
mod tests;
