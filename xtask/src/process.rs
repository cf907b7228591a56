//! Starting other programs, and where things are: the workspace, cargo, what cargo built. Every
//! program of ours is started without the caller's `FDR*` variables, so that a developer's
//! environment changes no result.
//!
//! No library does this in fewer lines. A command of `xshell` can't go to another thread. A command of `duct` takes no
//! more arguments after it is made. The errors of both lack the command's stderr.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// The workspace's folder.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Cargo's target folder: this program is TARGET/PROFILE/xtask.
pub fn target() -> Result<PathBuf> {
    let program = env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let target = program.ancestors().nth(2).map(Path::to_path_buf);
    target.ok_or_else(|| format!("{} is not in a target folder", program.display()))
}

/// A folder of its own below the target folder, made if need be.
pub fn work_folder(name: &str) -> Result<PathBuf> {
    let folder = target()?.join(name);
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    Ok(folder)
}

/// Folders in which programs are looked for: those of `PATH`, and those of the readers that cargo and pip installed for
/// us.
fn path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let ours = ["readers/bin", "readers/python/bin"];
    folders.extend(
        ours.into_iter()
            .filter_map(|name| Some(target().ok()?.join(name))),
    );
    folders
}

/// A program, run in the workspace's folder.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    // Only a folder with a colon in its name can't be joined.
    if let Ok(path) = env::join_paths(path()) {
        command.env("PATH", path);
    }
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name == "FDR" || name.starts_with("FDR_"))
        {
            command.env_remove(name);
        }
    }
    command
}

/// The cargo that started this program, with arguments separated by spaces.
pub fn cargo(arguments: &str) -> Command {
    let mut cargo = command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments.split_whitespace());
    cargo
}

/// What the compiler builds for.
pub fn host() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let (version, _) = output(command(rustc).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .ok_or("rustc does not say what it builds for")?
        .to_owned())
}

/// The packages of which tests are run or programs are used, in cargo's words: all but the benches. Every build of the
/// tests names these packages, because cargo unites the features of the packages that it is given. Other packages mean
/// other features, and other features mean that most of the tree is compiled again.
pub const TESTED: &str = "--workspace --exclude fdr-bench --exclude fdr-bench-driver";

/// Builds every program that tests start, where `cargo test` has them, too. The examples are part of it because their
/// dependencies add features, as those of tests do.
pub fn build_tested() -> Command {
    cargo(&format!("build --quiet {TESTED} --bins --examples"))
}

/// The command line as a person would type it.
pub fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// What took less is not worth a line.
const SHORT: Duration = Duration::from_secs(5);

/// Says how long something took that began then.
pub fn print_time(begin: Instant) {
    let time = begin.elapsed();
    if time >= SHORT {
        eprintln!("took {} s", time.as_secs());
    }
}

/// Shows and runs the command; its output goes where ours goes.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", command_line(command));
    let begin = Instant::now();
    let status = command
        .status()
        .map_err(|error| cannot_run(command, &error))?;
    print_time(begin);
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}`: {status}", command_line(command)))
    }
}

/// Runs the command and returns what it printed on stdout and stderr.
pub fn output(command: &mut Command) -> Result<(String, String)> {
    let output = command.stdin(Stdio::null()).output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.map_err(|error| cannot_run(command, &error))?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    if !status.success() {
        return Err(format!(
            "`{}`: {status}\n{}",
            command_line(command),
            stderr.trim_end()
        ));
    }
    Ok((String::from_utf8_lossy(&stdout).into_owned(), stderr))
}

/// The message for a program that could not be started.
pub fn cannot_run(command: &Command, error: &std::io::Error) -> String {
    format!("cannot run `{}`: {error}", command_line(command))
}

/// The program of that name on `PATH`, or among the readers that cargo installed for us.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let mut places = path().into_iter().map(|folder| folder.join(program));
    places.find(|path| path.is_file())
}

/// Finds a file of a Python package: in an environment whose programs are on `PATH`, or in the environment that pip
/// made for us.
pub(crate) fn in_python_package(file: &str) -> Option<PathBuf> {
    let libraries = path().into_iter().filter_map(|programs| {
        let libraries = programs.parent()?.join("lib");
        std::fs::read_dir(libraries).ok()
    });
    let mut places = libraries.flatten().map_while(std::result::Result::ok);
    places.find_map(|library| {
        let file = library.path().join("site-packages").join(file);
        file.is_file().then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_command() {
        let error = output(command("sh").args(["-c", "echo no such thing >&2; exit 3"]));
        let error = error.expect_err("exit status 3");
        assert!(
            error.contains("sh -c") && error.contains("exit status: 3"),
            "{error}"
        );
        assert!(error.contains("no such thing"), "{error}");
    }

    #[test]
    fn the_root_holds_the_workspace() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
        assert!(manifest.starts_with("[workspace]"));
    }
}
