//! `fdr export` and `fdr query`: these commands start the program `fdr-fleet`, which is installed separately because it
//! contains an SQL engine. The program is searched for as cargo searches for its subcommands.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;

use super::Status;

const PROGRAM: &str = "fdr-fleet";

/// What the program gets.
#[derive(clap::Args)]
struct FleetArguments {
    /// As `fdr-fleet COMMAND --help` says
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

/// `fdr export`.
pub(crate) mod export {
    use super::{FleetArguments, Status, become_it};

    /// Write traces as Parquet files (by fdr-fleet)
    #[derive(clap::Args)]
    #[command(disable_help_flag = true)]
    pub(crate) struct Options {
        #[command(flatten)]
        passed: FleetArguments,
    }

    /// Runs the command.
    pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
        become_it("export", &options.passed.arguments)
    }
}

/// `fdr query`.
pub(crate) mod query {
    use super::{FleetArguments, Status, become_it};

    /// Ask questions over many exported traces, in SQL (by fdr-fleet)
    #[derive(clap::Args)]
    #[command(disable_help_flag = true)]
    pub(crate) struct Options {
        #[command(flatten)]
        passed: FleetArguments,
    }

    /// Runs the command.
    pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
        become_it("query", &options.passed.arguments)
    }
}

/// Its path, if it is in the same folder as this program. Else the system looks for it.
fn beside() -> Option<PathBuf> {
    let beside = env::current_exe().ok()?.with_file_name(PROGRAM);
    beside.is_file().then_some(beside)
}

fn become_it(command: &str, arguments: &[OsString]) -> anyhow::Result<Status> {
    let program = beside().unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).arg(command).args(arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        bail!(
            "fdr {command} needs the program {PROGRAM}, and there is none beside this one or on PATH: \
             `cargo install --path fleet` in the sources of fdr installs it"
        );
    }
    bail!("{}: {error}", crate::ui::path(&program))
}
