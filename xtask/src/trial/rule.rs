//! `cargo xtask trial --rule`: callgrind counts what each function of a program runs by itself, and the functions that
//! whole-scope marking leaves out must be short. The program is optimized and does not record. Functions that the
//! compiler puts into their callers have no cost of their own and are not judged. A marked function has records of its
//! own, so the compiler is kept from putting it into a caller that is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use xshell::cmd;

use super::callgrind::{self, Cost, Costs, Key};
use xtask::Result;
use xtask::process::{on_path, output, run, shell, shell_in, target};
use xtask::programs::{Kind, Program};

/// The most instructions of its own that a function that is left out may run in a call, on average.
const MAX: u64 = 200;
/// A marked function that runs fewer is hardly worth the mark.
const FEW: u64 = 20;

/// What `cargo fdr instrument --list` says of a function.
struct Listed {
    /// `FILE:LINE: NAME`.
    place: String,
    key: Key,
    verdict: String,
}

/// What was found of a program.
#[derive(Default)]
struct RuleFindings {
    /// Functions that ran, were left out, and could have been marked.
    left_out: usize,
    /// Lines for those that are too long.
    too_long: Vec<String>,
    /// Marked functions that ran, and those that are hardly worth it.
    marked: usize,
    hardly: usize,
    /// The program's functions that are not in the list, such as those that a macro makes.
    unknown: usize,
}

/// Runs the program's tests under callgrind and holds the rule against the counts.
///
/// # Errors
///
/// If valgrind is missing, nothing could be counted, or a function that is left out is too long.
pub(super) fn run_program(folder: &Path, build: &Path, program: &Program) -> Result<()> {
    on_path("valgrind").ok_or("valgrind is not installed: on Debian: apt-get install valgrind")?;
    let [original, sources] = [Kind::Original, Kind::Marked].map(|kind| folder.join(kind.name()));
    keep_apart(&original, &sources)?;
    let counts = folder.join("callgrind");
    // What an earlier run left, if any.
    let _ = fs::remove_dir_all(&counts);
    fs::create_dir_all(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
    let sh = shell_in(&sources)?;
    sh.set_var("CARGO_TARGET_DIR", build);
    sh.set_var("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
    let tests = "--workspace --release --no-fail-fast --lib --bins --tests".split(' ');
    let words = tests.clone();
    run(cmd!(sh, "cargo test {words...} --no-run --quiet"))?;
    let out = counts.join("%p.out");
    let valgrind = format!(
        "valgrind --quiet --tool=callgrind --compress-strings=no --compress-pos=no --callgrind-out-file={}",
        out.display()
    );
    let runner = format!(
        "CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_RUNNER",
        std::env::consts::ARCH.to_uppercase()
    );
    sh.set_var(&runner, &valgrind);
    // A test may fail because it runs so slowly. What it ran was counted.
    let _ = run(cmd!(sh, "cargo test {tests...}"));
    if let Some((arguments, input)) = program.run {
        let arguments = arguments.split_whitespace();
        let once = cmd!(sh, "cargo run --quiet --release {arguments...}");
        run(once.stdin(input).ignore_stdout())?;
    }
    let listed = list(&original, &sources)?;
    let found = judge(&costs(&counts)?, &listed);
    let name = program.name;
    println!(
        "{name}: {} functions that ran are left out, {} of them over {MAX} instructions a call",
        found.left_out,
        found.too_long.len()
    );
    for line in &found.too_long {
        println!("  {line}");
    }
    println!(
        "{name}: {} marked functions ran, {} of them under {FEW} instructions a call; {} others are not in the list",
        found.marked, found.hardly, found.unknown
    );
    match (found.left_out + found.marked, found.too_long.len()) {
        (0, _) => Err(format!("{name}: callgrind counted none of its functions")),
        (_, 0) => Ok(()),
        (_, count) => Err(format!(
            "{name}: {count} functions are left out that are worth it"
        )),
    }
}

/// All that was counted in a folder.
fn costs(folder: &Path) -> Result<Costs> {
    let bad = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut costs = Costs::new();
    for entry in fs::read_dir(folder).map_err(|error| bad(folder, &error))? {
        let path = entry.map_err(|error| bad(folder, &error))?.path();
        let text = fs::read(&path).map_err(|error| bad(&path, &error))?;
        // A process that was killed leaves an empty file.
        if !text.is_empty() {
            let text = String::from_utf8_lossy(&text);
            callgrind::add(&text, &mut costs).map_err(|error| bad(&path, &error))?;
        }
    }
    Ok(costs)
}

/// Takes the recorder out of marked sources: each mark becomes `#[inline(never)]`.
fn keep_apart(original: &Path, marked: &Path) -> Result<()> {
    let bad = |path: &Path, error| format!("{}: {error}", path.display());
    for entry in fs::read_dir(original).map_err(|error| bad(original, error))? {
        let original = entry.map_err(|error| bad(original, error))?.path();
        let marked = marked.join(original.file_name().unwrap_or_default());
        let is_rust = original
            .extension()
            .is_some_and(|extension| extension == "rs");
        if original.is_dir() {
            keep_apart(&original, &marked)?;
        } else if is_rust {
            let text = fs::read_to_string(&marked).map_err(|error| bad(&marked, error))?;
            fs::write(&marked, never_inlined(&text)).map_err(|error| bad(&marked, error))?;
        } else {
            fs::copy(&original, &marked).map_err(|error| bad(&marked, error))?;
        }
    }
    Ok(())
}

/// With each mark replaced. What the function says about inlining gives way.
fn never_inlined(text: &str) -> String {
    const MARK: &str = "#[fdr::traced(auto)]";
    let mut parts = text.split(MARK).peekable();
    let mut without = String::new();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        // The attributes of the function, and perhaps its documentation.
        let start = part.rfind(['}', ';', '{']).map_or(0, |at| at + 1);
        let at = part[start..].rfind("#[inline").map(|at| start + at);
        let end = at.and_then(|at| Some(at + part[at..].find(']')? + 1));
        match (at, end) {
            (Some(at), Some(end)) if !is_last => {
                without.push_str(&part[..at]);
                without.push_str(&part[end..]);
            }
            _ => without.push_str(part),
        }
        if !is_last {
            without.push_str("#[inline(never)]");
        }
    }
    without
}

/// The functions of the original sources, by the files of the marked ones.
fn list(original: &Path, marked: &Path) -> Result<BTreeMap<PathBuf, Vec<Listed>>> {
    let (sh, tool) = (shell()?, target()?.join("debug/cargo-fdr"));
    let (text, _) = output(cmd!(sh, "{tool} fdr instrument --list {original}"))?;
    let mut listed: BTreeMap<PathBuf, Vec<Listed>> = BTreeMap::new();
    for line in text.lines() {
        let (file, function) = listed_of(line).ok_or_else(|| format!("no function: {line:?}"))?;
        listed.entry(marked.join(file)).or_default().push(function);
    }
    Ok(listed)
}

/// `FILE:LINE: NAME: VERDICT`; both name and verdict may hold a colon.
fn listed_of(line: &str) -> Option<(&str, Listed)> {
    let (place, verdict) = match line.strip_suffix(": marked") {
        Some(place) => (place, "marked"),
        None => line.split_once(": left out: ")?,
    };
    let (position, name) = place.split_once(": ")?;
    let (file, _) = position.rsplit_once(':')?;
    let function = Listed {
        place: place.to_owned(),
        key: Key::parse(name)?,
        verdict: verdict.to_owned(),
    };
    Some((file, function))
}

/// The function of a file that has the name, if exactly one has.
fn find<'a>(listed: &'a [Listed], key: &Key) -> Option<&'a Listed> {
    type Same = fn(&Key, &Key) -> bool;
    let ways: [Same; 3] = [
        |one, other| one == other,
        |one, other| one.owner == other.owner && one.name == other.name,
        // The default method of a trait has the type's name in the program.
        |one, other| one.name == other.name,
    ];
    ways.iter().find_map(|same| {
        let mut found = listed.iter().filter(|function| same(&function.key, key));
        let first = found.next()?;
        found.next().is_none().then_some(first)
    })
}

fn judge(costs: &Costs, listed: &BTreeMap<PathBuf, Vec<Listed>>) -> RuleFindings {
    let mut found = RuleFindings::default();
    let mut by_function: BTreeMap<&str, (&Listed, Cost)> = BTreeMap::new();
    for ((file, name), cost) in costs {
        let Some(of_file) = listed.get(Path::new(file)) else {
            continue;
        };
        match Key::parse(name).and_then(|key| find(of_file, &key)) {
            Some(function) => {
                // All instances of a generic function together, as in a trace.
                let sum = by_function.entry(&function.place);
                let (_, sum) = sum.or_insert((function, Cost::default()));
                sum.calls += cost.calls;
                sum.own += cost.own;
            }
            None => found.unknown += 1,
        }
    }
    for (place, (function, cost)) in by_function {
        let average = cost.own / cost.calls.max(1);
        if function.verdict == "marked" {
            found.marked += 1;
            found.hardly += usize::from(average < FEW);
        } else if function.verdict != "const fn" && function.verdict != "part of a test" {
            found.left_out += 1;
            if average > MAX {
                found.too_long.push(format!(
                    "{average} instructions a call, {} calls: {place}: {}",
                    cost.calls, function.verdict
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_a_word_to_the_compiler() {
        let marked = "#[inline]\nfn a() {}\n/// b\n#[inline(always)]\npub #[fdr::traced(auto)] fn b() {}\n\
                      #[c] #[fdr::traced(auto)] fn c() {} #[inline] fn d() {}";
        let without = "#[inline]\nfn a() {}\n/// b\n\npub #[inline(never)] fn b() {}\n\
                       #[c] #[inline(never)] fn c() {} #[inline] fn d() {}";
        assert_eq!(never_inlined(marked), without);
    }

    #[test]
    fn left_out_functions_are_judged_by_average() {
        let lines = [
            "a/src/b.rs:4: a::B::short: left out: no loop, about 20 instructions",
            "a/src/b.rs:9: a::B::long: left out: no loop, about 30 instructions",
            "a/src/b.rs:14: <a::B as T>::worth: marked",
            "a/src/b.rs:20: a::B::fixed: left out: const fn",
        ];
        let mut listed = BTreeMap::new();
        for line in lines {
            let (file, function) = listed_of(line).expect("a function");
            let of_file: &mut Vec<Listed> = listed.entry(PathBuf::from(file)).or_default();
            of_file.push(function);
        }
        assert_eq!(listed_of("3 files changed").map(|found| found.0), None);
        let mut costs = Costs::new();
        let mut cost = |file: &str, name: &str, calls, own| {
            costs.insert((file.to_owned(), name.to_owned()), Cost { calls, own });
        };
        cost("a/src/b.rs", "<a::B>::short", 10, 2000);
        cost("a/src/b.rs", "<a::B>::long::<u8>", 10, 2000);
        cost("a/src/b.rs", "<a::B>::long::<u16>", 1, 1000);
        cost("a/src/b.rs", "<a::B as a::T>::worth", 100, 1000);
        cost("a/src/b.rs", "<a::B>::fixed", 1, 10_000);
        cost("a/src/b.rs", "<a::B as a::T>::made_by_a_macro", 1, 10_000);
        cost("core/src/c.rs", "<a::B>::long", 1, 10_000);
        let found = judge(&costs, &listed);
        assert_eq!((found.left_out, found.marked), (2, 1));
        assert_eq!((found.hardly, found.unknown), (1, 1));
        assert_eq!(
            found.too_long,
            [
                "272 instructions a call, 11 calls: a/src/b.rs:9: a::B::long: no loop, about 30 instructions"
            ]
        );
    }
}
