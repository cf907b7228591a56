//! `cargo xtask bench compile`: how long a crate with many traced functions takes to compile, beside its twin
//! without the attribute. Only the crate itself is built anew each time, never what it depends on.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::figures::Spread;
use super::machine;
use crate::Result;
use crate::process::{cargo, output, root, work_folder};

const ROUNDS: usize = 5;
/// Functions of a module.
const OF_A_MODULE: u32 = 100;
const PROFILES: [(&str, &str); 2] = [("dev", ""), ("release", "--release")];

/// Generates the twins, builds them in turn, and prints the table.
///
/// # Errors
///
/// If they can't be written or do not compile.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let functions = match words {
        [] => 10_000,
        ["--functions", number] => number
            .parse()
            .ok()
            .filter(|&number| number > 0)
            .ok_or("--functions needs a number")?,
        _ => return Err("unknown option; see cargo xtask help".to_owned()),
    };
    let folder = work_folder("bench/compile")?;
    let twins = ["untraced", "traced"].map(|twin| folder.join(twin));
    for (twin, path) in twins.iter().enumerate() {
        generate(path, functions, twin == 1)?;
    }
    println!(
        "{}; a crate of {functions} functions, median of {ROUNDS} builds in turn, s\n\n{:<8} {:>10} {:>10} {:>8}",
        machine(),
        "profile",
        "untraced",
        "traced",
        "ratio"
    );
    for (profile, flag) in PROFILES {
        let mut seconds = [const { Vec::new() }; 2];
        // The first round builds what they depend on.
        for round in 0..=ROUNDS {
            for (path, seconds) in twins.iter().zip(&mut seconds) {
                let took = build(path, flag)?;
                if round > 0 {
                    seconds.push(took);
                }
            }
        }
        let medians = seconds.map(|seconds| Spread::of(seconds).map_or(0.0, |all| all.median));
        println!("{}", row(profile, medians));
    }
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn row(profile: &str, [untraced, traced]: [f64; 2]) -> String {
    let ratio = traced / untraced;
    format!("{profile:<8} {untraced:>10.2} {traced:>10.2} {ratio:>8.2}")
}

/// Seconds for the crate alone.
fn build(path: &Path, flag: &str) -> Result<f64> {
    let touched = path.join("src/lib.rs");
    let bad = |error| format!("{}: {error}", touched.display());
    let text = fs::read_to_string(&touched).map_err(bad)?;
    fs::write(&touched, text + "\n").map_err(bad)?;
    let since = Instant::now();
    let mut build = cargo("build --quiet --offline");
    build.args(flag.split_whitespace()).current_dir(path);
    build.env("CARGO_INCREMENTAL", "0");
    output(build.env("CARGO_TARGET_DIR", path.join("target")))?;
    Ok(since.elapsed().as_secs_f64())
}

fn generate(path: &Path, functions: u32, traced: bool) -> Result<()> {
    let write = |name: PathBuf, text: &str| {
        let parent = name.parent().unwrap_or(path);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&name, text));
        written.map_err(|error| format!("cannot write {}: {error}", name.display()))
    };
    let runtime = root().join("runtime");
    let manifest = format!(
        "[package]\nname = \"twin\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nfdr = {{ path = {runtime:?} }}\n\n[workspace]\n"
    );
    write(path.join("Cargo.toml"), &manifest)?;
    let lock = fs::read(root().join("Cargo.lock")).unwrap_or_default();
    write(path.join("Cargo.lock"), &String::from_utf8_lossy(&lock))?;
    let modules = functions.div_ceil(OF_A_MODULE);
    let mut library = String::new();
    for module in 0..modules {
        let _ = writeln!(library, "pub mod m{module};");
        let first = module * OF_A_MODULE;
        let last = functions.min(first + OF_A_MODULE);
        let text: String = (first..last)
            .map(|number| function(number, traced))
            .collect();
        write(path.join(format!("src/m{module}.rs")), &text)?;
    }
    write(path.join("src/lib.rs"), &library)
}

/// A function of a dozen lines, as programs have them.
fn function(number: u32, traced: bool) -> String {
    let attribute = if traced { "#[fdr::traced]\n" } else { "" };
    format!(
        "{attribute}pub fn f{number}(words: &[String], limit: usize) -> Option<usize> {{\n    \
         let mut longest = None;\n    \
         for (at, word) in words.iter().enumerate().take(limit) {{\n        \
         if word.len() > {number} && !word.starts_with(char::is_uppercase) {{\n            \
         longest = Some(longest.map_or(at, |before: usize| before.max(at)));\n        }}\n    }}\n    longest\n}}\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_differ_in_the_attribute_alone() {
        let (plain, traced) = (function(7, false), function(7, true));
        assert_eq!(traced, format!("#[fdr::traced]\n{plain}"));
        assert!(plain.starts_with("pub fn f7("));
        assert_eq!(
            row("dev", [10.0, 12.5]).split_whitespace().last(),
            Some("1.25")
        );
    }
}
