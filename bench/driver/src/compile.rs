//! `cargo xtask bench compile`: how long a crate with many traced functions takes to compile, beside its twins without
//! the attribute. Each measurement compiles only the crate itself, and not its dependencies.
//!
//! In a build without optimization, most of the cost of tracing is code that runs when a panic leaves the function.
//! Functions that own a value have such code anyway. So there are two bodies, and a twin whose only difference from the
//! untraced function is a variable with an empty `drop`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::ValueEnum;
use xtask::process::{output, root, shell_in, work_folder};

use crate::Result;
use crate::figures::median;
use crate::program::{self, RunCost, machine, measured};
use crate::table::table;

const ROUNDS: usize = 5;
/// Functions of a module.
const OF_A_MODULE: u32 = 100;

/// How long a crate of many functions compiles, traced and untraced; up to an hour and a half
#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    functions: u32,
    /// What functions do: one of them alone
    #[arg(long)]
    body: Option<Body>,
    #[arg(long)]
    profile: Option<Profile>,
}

/// What a crate's functions have besides their bodies.
#[derive(Clone, Copy, PartialEq)]
enum Twin {
    Untraced,
    /// A variable whose `drop` does nothing.
    Guarded,
    Traced,
}

const TWINS: [Twin; 3] = [Twin::Untraced, Twin::Guarded, Twin::Traced];

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Body {
    Borrows,
    Owns,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Profile {
    Dev,
    Release,
}

/// Generates the twins, builds them in turn, and prints the table.
///
/// # Errors
/// If they can't be written or do not compile.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = work_folder("bench/compile")?;
    program::build()?;
    let heads = "profile | body | untraced | guarded | traced | ratio | CPU: untraced | guarded | traced | ratio";
    let mut table = table(heads);
    let bodies = Body::value_variants().iter();
    for &body in bodies.filter(|&&body| options.body.is_none_or(|wanted| wanted == body)) {
        let twins = TWINS.map(|twin| folder.join(format!("{body:?}-{}", twin as u8)));
        for (twin, path) in TWINS.iter().zip(&twins) {
            generate(path, options.functions, body, *twin)?;
        }
        let profiles = Profile::value_variants().iter();
        for &profile in profiles.filter(|&&all| options.profile.is_none_or(|wanted| wanted == all))
        {
            let mut took = [const { Vec::new() }; 3];
            // The first round builds what they depend on.
            for round in 0..=ROUNDS {
                for (path, took) in twins.iter().zip(&mut took) {
                    eprintln!("{body:?}, {profile:?}, round {round}: {}", path.display());
                    let build = build(path, profile)?;
                    took.extend((round > 0).then_some(build));
                }
            }
            let names = [format!("{profile:?}"), format!("{body:?}")];
            table.add_row(names.into_iter().chain(row(&took)));
        }
    }
    println!(
        "{}; a crate of {} functions, medians of {ROUNDS} builds in turn, s\n\n{table}",
        machine(),
        options.functions
    );
    Ok(fs::remove_dir_all(&folder)?)
}

/// Seconds and seconds of CPU of each twin, and the ratios of the traced one's to the untraced one's.
fn row(took: &[Vec<RunCost>; 3]) -> Vec<String> {
    let measure = |of: fn(&RunCost) -> f64| {
        let medians = took.each_ref().map(|all| median(all.iter().map(of)));
        let [untraced, guarded, traced] = medians;
        [untraced, guarded, traced, traced / untraced].map(|value| format!("{value:.2}"))
    };
    [
        measure(|took| took.seconds),
        measure(|took| took.cpu_seconds),
    ]
    .concat()
}

/// What the crate alone took.
fn build(path: &Path, profile: Profile) -> Result<RunCost> {
    let touched = path.join("src/lib.rs");
    fs::write(&touched, fs::read_to_string(&touched)? + "\n")?;
    let sh = shell_in(path)?;
    sh.set_var("CARGO_INCREMENTAL", "0");
    sh.set_var("CARGO_TARGET_DIR", path.join("target"));
    let release = (profile == Profile::Release).then_some("--release");
    let cargo = measured(&sh)?.args(["cargo", "build", "--quiet", "--offline"]);
    let (_, log) = output(cargo.args(release))?;
    RunCost::parse(&log)
}

fn generate(path: &Path, functions: u32, body: Body, twin: Twin) -> Result<()> {
    fs::create_dir_all(path.join("src"))?;
    let runtime = root().join("runtime");
    let manifest = format!(
        "[package]\nname = \"twin\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nfdr = {{ path = {runtime:?} }}\n\n[workspace]\n"
    );
    fs::write(path.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), path.join("Cargo.lock"))?;
    let mut library = LIBRARY.to_owned();
    for module in 0..functions.div_ceil(OF_A_MODULE) {
        let _ = writeln!(library, "pub mod m{module};");
        let first = module * OF_A_MODULE;
        let numbers = first..functions.min(first + OF_A_MODULE);
        let text: String = numbers.map(|number| function(number, body, twin)).collect();
        fs::write(path.join(format!("src/m{module}.rs")), text)?;
    }
    Ok(fs::write(path.join("src/lib.rs"), library)?)
}

/// What [`Twin::Guarded`] needs, and the others have as well.
const LIBRARY: &str = "\
pub struct Last;
impl Drop for Last {
    #[inline(never)]
    fn drop(&mut self) {}
}
";

/// A typical function of a dozen lines. Its body has no variable that a panic must drop, or has one.
fn function(number: u32, body: Body, twin: Twin) -> String {
    let attribute = if twin == Twin::Traced {
        "#[fdr::traced]\n"
    } else {
        ""
    };
    let guard = if twin == Twin::Guarded {
        "    let _last = crate::Last;\n"
    } else {
        ""
    };
    let (result, body) = match body {
        Body::Borrows => ("Option<usize>", BORROWING),
        Body::Owns => ("String", OWNING),
    };
    let body = body.replace("NUMBER", &number.to_string());
    format!(
        "{attribute}pub fn f{number}(words: &[String], limit: usize) -> {result} {{\n{guard}{body}}}\n\n"
    )
}

const BORROWING: &str = "    let mut longest = None;
    for (at, word) in words.iter().enumerate().take(limit) {
        if word.len() > NUMBER && !word.starts_with(char::is_uppercase) {
            longest = Some(longest.map_or(at, |before: usize| before.max(at)));
        }
    }
    longest
";

const OWNING: &str = "    let mut joined = String::new();
    for (at, word) in words.iter().enumerate().take(limit) {
        if at > NUMBER && !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(word.trim());
    }
    joined
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_differ_in_one_line() {
        for &body in Body::value_variants() {
            let [plain, guarded, traced] = TWINS.map(|twin| function(7, body, twin));
            assert_eq!(traced, format!("#[fdr::traced]\n{plain}"));
            assert_eq!(guarded.replace("    let _last = crate::Last;\n", ""), plain);
            assert_ne!(guarded, plain);
            assert!(plain.starts_with("pub fn f7(") && !plain.contains("NUMBER"));
        }
    }

    #[test]
    fn ratios_are_those_of_medians() {
        let took = |seconds, cpu_seconds| RunCost {
            seconds,
            cpu_seconds,
            peak_mib: 0.0,
        };
        let all = [
            vec![took(10.0, 20.0)],
            vec![took(11.0, 21.0)],
            vec![took(12.5, 30.0)],
        ];
        let wanted = [
            "10.00", "11.00", "12.50", "1.25", "20.00", "21.00", "30.00", "1.50",
        ];
        assert_eq!(row(&all), wanted);
    }
}
