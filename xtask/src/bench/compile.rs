//! `cargo xtask bench compile`: how long a crate with many traced functions takes to compile, beside its twins
//! without the attribute. Only the crate itself is built anew each time, never what it depends on.
//!
//! Where nothing is optimized, most of what tracing costs is that a function has something to do when a
//! panic leaves it. Functions that own something have that anyway. So there are two bodies, and a twin
//! that differs from the untraced one in a variable with an empty `drop`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::figures::Spread;
use super::machine;
use super::options::Words;
use crate::Result;
use crate::process::{cargo, output, root, work_folder};

const ROUNDS: usize = 5;
/// Functions of a module.
const OF_A_MODULE: u32 = 100;
const PROFILES: [(&str, &str); 2] = [("dev", ""), ("release", "--release")];

/// What a crate's functions have besides their bodies.
#[derive(Clone, Copy, PartialEq)]
enum Twin {
    Untraced,
    /// A variable whose `drop` does nothing.
    Guarded,
    Traced,
}

const TWINS: [Twin; 3] = [Twin::Untraced, Twin::Guarded, Twin::Traced];

/// What functions do.
#[derive(Clone, Copy, PartialEq)]
enum Body {
    Borrows,
    Owns,
}

const BODIES: [(&str, Body); 2] = [("borrows", Body::Borrows), ("owns", Body::Owns)];

/// What a build took.
#[derive(Clone, Copy)]
struct Took {
    seconds: f64,
    /// Of all cores.
    processor_seconds: f64,
}

struct Options {
    functions: u32,
    /// Names; all where there is none.
    body: Option<&'static str>,
    profile: Option<&'static str>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            functions: 10_000,
            body: None,
            profile: None,
        };
        let mut words = Words::new(words);
        while let Some(option) = words.option() {
            match option {
                "--functions" => options.functions = words.number("a number, 1 at least", 1)?,
                "--body" => options.body = Some(words.one_of(&BODIES.map(|(name, _)| name))?),
                "--profile" => {
                    options.profile = Some(words.one_of(&PROFILES.map(|(name, _)| name))?);
                }
                _ => return Err(words.unknown()),
            }
        }
        Ok(options)
    }
}

/// Generates the twins, builds them in turn, and prints the table.
///
/// # Errors
///
/// If they can't be written or do not compile.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let functions = options.functions;
    let folder = work_folder("bench/compile")?;
    println!(
        "{}; a crate of {functions} functions, medians of {ROUNDS} builds in turn, s\n\n{}",
        machine(),
        header()
    );
    let is_wanted = |wanted: Option<&str>, name| wanted.is_none_or(|wanted| wanted == name);
    for (body_name, body) in BODIES {
        if !is_wanted(options.body, body_name) {
            continue;
        }
        let twins = TWINS.map(|twin| folder.join(format!("{body_name}-{}", twin as u8)));
        for (twin, path) in TWINS.iter().zip(&twins) {
            generate(path, functions, body, *twin)?;
        }
        for (profile, flag) in PROFILES {
            if is_wanted(options.profile, profile) {
                let took = builds(&twins, flag)?;
                println!("{}", row(profile, body_name, &took));
            }
        }
    }
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// What each twin's builds took.
fn builds(twins: &[PathBuf; 3], flag: &str) -> Result<[Vec<Took>; 3]> {
    let mut took = [const { Vec::new() }; 3];
    // The first round builds what they depend on.
    for round in 0..=ROUNDS {
        for (path, took) in twins.iter().zip(&mut took) {
            let build = build(path, flag)?;
            if round > 0 {
                took.push(build);
            }
        }
    }
    Ok(took)
}

fn header() -> String {
    format!(
        "{:<8} {:<8} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9} {:>7}",
        "profile",
        "body",
        "untraced",
        "guarded",
        "traced",
        "ratio",
        "CPU: un-",
        "guarded",
        "traced",
        "ratio"
    )
}

fn row(profile: &str, body: &str, took: &[Vec<Took>; 3]) -> String {
    let mut row = format!("{profile:<8} {body:<8}");
    for measure in [
        |took: &Took| took.seconds,
        |took: &Took| took.processor_seconds,
    ] {
        let [untraced, guarded, traced] = [0, 1, 2].map(|twin: usize| {
            Spread::of(took[twin].iter().map(measure)).map_or(0.0, |all| all.median)
        });
        let ratio = traced / untraced;
        let _ = write!(
            row,
            " {untraced:>9.2} {guarded:>9.2} {traced:>9.2} {ratio:>7.2}"
        );
    }
    row
}

/// What the crate alone took.
fn build(path: &Path, flag: &str) -> Result<Took> {
    let touched = path.join("src/lib.rs");
    let bad = |error| format!("{}: {error}", touched.display());
    let text = fs::read_to_string(&touched).map_err(bad)?;
    fs::write(&touched, text + "\n").map_err(bad)?;
    let (since, before) = (Instant::now(), childrens_seconds()?);
    let mut build = cargo("build --quiet --offline");
    build.args(flag.split_whitespace()).current_dir(path);
    build.env("CARGO_INCREMENTAL", "0");
    output(build.env("CARGO_TARGET_DIR", path.join("target")))?;
    Ok(Took {
        seconds: since.elapsed().as_secs_f64(),
        processor_seconds: childrens_seconds()? - before,
    })
}

/// Processor time of every program that we have waited for, and of those that it has.
fn childrens_seconds() -> Result<f64> {
    let name = "/proc/self/stat";
    let text = fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
    let ticks = childrens_ticks(&text).ok_or_else(|| format!("{name}: no times in it"))?;
    // Linux shows programs ticks of 10 ms, whatever its own are.
    Ok(ticks as f64 / 100.0)
}

fn childrens_ticks(stat: &str) -> Option<u64> {
    // The program's name, in parentheses, may hold anything. Behind it come fields 3, 4, ….
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: u64 = fields.nth(16 - 3)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn generate(path: &Path, functions: u32, body: Body, twin: Twin) -> Result<()> {
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
    let mut library = LIBRARY.to_owned();
    for module in 0..modules {
        let _ = writeln!(library, "pub mod m{module};");
        let first = module * OF_A_MODULE;
        let last = functions.min(first + OF_A_MODULE);
        let text: String = (first..last)
            .map(|number| function(number, body, twin))
            .collect();
        write(path.join(format!("src/m{module}.rs")), &text)?;
    }
    write(path.join("src/lib.rs"), &library)
}

/// What [`Twin::Guarded`] needs, and the others have as well.
const LIBRARY: &str = "\
pub struct Last;
impl Drop for Last {
    #[inline(never)]
    fn drop(&mut self) {}
}
";

/// A function of a dozen lines, as programs have them.
fn function(number: u32, body: Body, twin: Twin) -> String {
    let attribute = match twin {
        Twin::Traced => "#[fdr::traced]\n",
        Twin::Untraced | Twin::Guarded => "",
    };
    let guard = match twin {
        Twin::Guarded => "    let _last = crate::Last;\n",
        Twin::Untraced | Twin::Traced => "",
    };
    let (result, body) = match body {
        Body::Borrows => ("Option<usize>", borrowing(number)),
        Body::Owns => ("String", owning(number)),
    };
    format!(
        "{attribute}pub fn f{number}(words: &[String], limit: usize) -> {result} {{\n{guard}{body}}}\n\n"
    )
}

/// Nothing to drop.
fn borrowing(number: u32) -> String {
    format!(
        "    let mut longest = None;\n    \
         for (at, word) in words.iter().enumerate().take(limit) {{\n        \
         if word.len() > {number} && !word.starts_with(char::is_uppercase) {{\n            \
         longest = Some(longest.map_or(at, |before: usize| before.max(at)));\n        }}\n    }}\n    longest\n"
    )
}

/// A variable to drop when a panic comes.
fn owning(number: u32) -> String {
    format!(
        "    let mut joined = String::new();\n    \
         for (at, word) in words.iter().enumerate().take(limit) {{\n        \
         if at > {number} && !joined.is_empty() {{\n            \
         joined.push(' ');\n        }}\n        joined.push_str(word.trim());\n    }}\n    joined\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_differ_in_one_line() {
        for (_, body) in BODIES {
            let [plain, guarded, traced] = TWINS.map(|twin| function(7, body, twin));
            assert_eq!(traced, format!("#[fdr::traced]\n{plain}"));
            assert_eq!(guarded.replace("    let _last = crate::Last;\n", ""), plain);
            assert_ne!(guarded, plain);
            assert!(plain.starts_with("pub fn f7("));
        }
    }

    #[test]
    fn ratios_are_those_of_medians() {
        let took = |seconds, processor_seconds| Took {
            seconds,
            processor_seconds,
        };
        let all = [
            vec![took(10.0, 20.0)],
            vec![took(11.0, 21.0)],
            vec![took(12.5, 30.0)],
        ];
        let words = row("dev", "owns", &all);
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(words[2..6], ["10.00", "11.00", "12.50", "1.25"]);
        assert_eq!(words[6..], ["20.00", "21.00", "30.00", "1.50"]);
    }

    #[test]
    fn single_rows_can_be_had() {
        let options = Options::parse(&["--profile", "release", "--body", "owns"]);
        let options = options.expect("options");
        assert_eq!(
            (options.profile, options.body),
            (Some("release"), Some("owns"))
        );
        assert_eq!(options.functions, 10_000);
        for wrong in [["--functions", "0"], ["--body", "lends"], ["--rows", "1"]] {
            assert!(Options::parse(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn times_of_children_stand_behind_the_name() {
        let stat = "7 (a) 1 (b) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19";
        assert_eq!(childrens_ticks(stat), Some(16 + 17));
        assert_eq!(childrens_ticks("7 (a) S 4"), None);
        assert_eq!(childrens_ticks(""), None);
    }
}
