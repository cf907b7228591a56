//! What programs of ours find when they are started: the workspace, what cargo built, the readers that are installed for
//! us, and none of the caller's `FDR*` variables. Commands are those of `xshell`. Its errors lack the command's stderr,
//! and it does not say how long a command took: [`output`] and [`run`] do.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use xshell::{Cmd, Shell, cmd};

use crate::Result;

/// Starts this program anew without the caller's `FDR*` variables, if there are any: a shell of `xshell` can't remove
/// variables. The programs that this one starts lack them, too, so a developer's environment changes no result.
///
/// # Errors
///
/// If it can't be started anew.
pub fn drop_variables() -> Result<()> {
    let is_ours = |name: &OsString| {
        let name = name.to_str();
        name.is_some_and(|name| name == "FDR" || name.starts_with("FDR_"))
    };
    let names = env::vars_os().map(|(name, _)| name);
    let ours: Vec<OsString> = names.filter(is_ours).collect();
    if ours.is_empty() {
        return Ok(());
    }
    let mut anew = Command::new(program()?);
    anew.args(env::args_os().skip(1));
    for name in ours {
        anew.env_remove(name);
    }
    Err(format!("cannot start anew: {}", anew.exec()))
}

fn program() -> Result<PathBuf> {
    env::current_exe().map_err(|error| format!("where am I? {error}"))
}

/// The workspace's folder.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Cargo's target folder: this program is TARGET/PROFILE/xtask.
pub fn target() -> Result<PathBuf> {
    let program = program()?;
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

/// A shell in the workspace's folder, which finds the readers that are installed for us.
///
/// # Errors
///
/// If the current folder is gone.
pub fn shell() -> Result<Shell> {
    let sh = Shell::new().map_err(|error| error.to_string())?;
    sh.change_dir(root());
    // Only a folder with a colon in its name can't be joined.
    if let Ok(path) = env::join_paths(path()) {
        sh.set_var("PATH", path);
    }
    Ok(sh)
}

/// The same in another folder.
///
/// # Errors
///
/// Like [`shell`].
pub fn shell_in(folder: &Path) -> Result<Shell> {
    let sh = shell()?;
    sh.change_dir(folder);
    Ok(sh)
}

/// What the compiler builds for.
pub fn host() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sh = shell()?;
    let (version, _) = output(cmd!(sh, "{rustc} -vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .ok_or("rustc does not say what it builds for")?
        .to_owned())
}

/// The packages of which tests are run or programs are used, in cargo's words: all but the benches. Every build of the
/// tests names these packages, because cargo unites the features of the packages that it is given. Other packages mean
/// other features, and other features mean that most of the tree is compiled again.
pub const TESTED: [&str; 3] = [
    "--workspace",
    "--exclude=fdr-bench",
    "--exclude=fdr-bench-driver",
];

/// Builds every program that tests start, where `cargo test` has them, too. The examples are part of it because their
/// dependencies add features, as those of tests do.
pub fn build_tested(sh: &Shell) -> Cmd<'_> {
    cmd!(sh, "cargo build --quiet {TESTED...} --bins --examples")
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
pub fn run(cmd: Cmd<'_>) -> Result<()> {
    let begin = Instant::now();
    let ran = cmd.run().map_err(|error| error.to_string());
    print_time(begin);
    ran
}

/// Runs the command and returns what it printed on stdout and stderr.
pub fn output(mut cmd: Cmd<'_>) -> Result<(String, String)> {
    cmd.set_ignore_status(true);
    let output = cmd.output().map_err(|error| error.to_string())?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("`{cmd}`: {}\n{}", output.status, stderr.trim_end()));
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), stderr))
}

/// Runs the command, and hands over the lines of its stdout as they come.
pub fn lines(cmd: Cmd<'_>, mut take: impl FnMut(&str)) -> Result<ExitStatus> {
    let line = cmd.to_string();
    let child = Command::from(cmd).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| cannot_run(&line, &error))?;
    if let Some(output) = child.stdout.take() {
        for text in BufReader::new(output).split(b'\n') {
            let text = text.map_err(|error| format!("reading what `{line}` prints: {error}"))?;
            take(&String::from_utf8_lossy(&text));
        }
    }
    child.wait().map_err(|error| cannot_run(&line, &error))
}

/// Runs the command with what it prints into files.
pub fn into_files(cmd: Cmd<'_>, stdout: File, stderr: File) -> Result<ExitStatus> {
    let line = cmd.to_string();
    let mut command = Command::from(cmd);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.status().map_err(|error| cannot_run(&line, &error))
}

/// The message for a program that could not be started.
pub fn cannot_run(line: &str, error: &io::Error) -> String {
    format!("cannot run `{line}`: {error}")
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
        let sh = shell().expect("a shell");
        let error = output(cmd!(sh, "sh -c 'echo no such thing >&2; exit 3'"));
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
