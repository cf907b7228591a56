//! What a call site is in bytes and in instructions: sizes of the leaf's twins in the bench program's
//! symbol table (`nm`), and instructions of a call that is off (valgrind's callgrind). Both are exact,
//! not timed; where the other program is missing, that is what is told.

use std::path::Path;

use crate::Result;
use crate::process::{command, on_path, output, work_folder};

/// Something that the untraced twin has, and the traced one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Twins {
    pub(crate) untraced: f64,
    pub(crate) traced: f64,
}

impl Twins {
    pub(crate) fn more(&self) -> f64 {
        self.traced - self.untraced
    }
}

/// Code bytes of the leaf, twin by twin.
///
/// # Errors
///
/// If `nm` (Debian package binutils) is missing, or the program has no such symbols.
pub(crate) fn leaf_bytes(program: &Path) -> Result<Twins> {
    let mut nm = command("nm");
    let (symbols, _) = output(
        nm.args(["--print-size", "--demangle", "--defined-only"])
            .arg(program),
    )?;
    let bytes = |twin: &str| {
        let bytes = code_bytes(&symbols, &format!("::{twin}::leaf"));
        bytes.ok_or_else(|| format!("no symbol of {twin}::leaf in {}", program.display()))
    };
    Ok(Twins {
        untraced: bytes("untraced")?,
        traced: bytes("traced")?,
    })
}

/// Sum of the sizes of the function and of what belongs to it (closures, parts split off).
pub(super) fn code_bytes(symbols: &str, function: &str) -> Option<f64> {
    let mut sum = None;
    for line in symbols.lines() {
        // Address, size, kind, name: only functions have kind t or T.
        let mut fields = line.splitn(4, ' ');
        let (size, kind, name) = (fields.nth(1), fields.next(), fields.next());
        let (Some(size), Some("t" | "T"), Some(name)) = (size, kind, name) else {
            continue;
        };
        let Some((_, rest)) = name.split_once(function) else {
            continue;
        };
        // The name ends there, or a closure, a hash or a suffix follows; not `leaf_loop`.
        if (rest.is_empty() || rest.starts_with(['.', ':', ' ']))
            && let Ok(size) = u64::from_str_radix(size, 16)
        {
            sum = Some(sum.unwrap_or(0.0) + size as f64);
        }
    }
    sum
}

/// Instructions of one call of the leaf while recording is off, loop included, twin by twin: the
/// difference between many and few calls, so that start-up does not count.
///
/// # Errors
///
/// If valgrind is missing or cannot run the program.
pub(crate) fn leaf_instructions(program: &Path) -> Result<Twins> {
    if on_path("valgrind").is_none() {
        return Err("valgrind is not installed (Debian package valgrind)".to_owned());
    }
    let count =
        |twin: &str, calls: u32| -> Result<f64> { Ok(instructions(program, twin, calls, &[])?.0) };
    let per_call = |twin: &str| -> Result<f64> {
        let (few, many) = (1_000, 101_000);
        Ok((count(twin, many)? - count(twin, few)?) / f64::from(many - few))
    };
    Ok(Twins {
        untraced: per_call("untraced")?,
        traced: per_call("traced")?,
    })
}

/// Instructions of the bench program that makes so many calls of the leaf, start-up included; and what it
/// and valgrind said. `variables`: its environment beside the caller's.
///
/// # Errors
///
/// If valgrind cannot run the program.
pub(crate) fn instructions(
    program: &Path,
    twin: &str,
    calls: u32,
    variables: &[(&str, &str)],
) -> Result<(f64, String)> {
    let out = work_folder("bench")?.join("callgrind.out");
    let mut valgrind = command("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(["calls", "leaf", twin, &calls.to_string(), "1"])
        .envs(variables.iter().copied());
    let (_, log) = output(&mut valgrind)?;
    let _ = std::fs::remove_file(&out);
    match collected(&log) {
        Some(count) => Ok((count, log)),
        None => Err(format!("callgrind counted nothing:\n{log}")),
    }
}

/// The sum of callgrind's line `==PID== Collected : 12345`.
fn collected(log: &str) -> Option<f64> {
    let line = log
        .lines()
        .find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_a_function_are_summed() {
        let symbols = "\
0000000000001000 000000000000001e t fdr_bench::work::untraced::leaf
0000000000001020 0000000000000040 t fdr_bench::work::traced::leaf
0000000000001060 0000000000000010 t fdr_bench::work::traced::leaf::{{closure}}
0000000000001080 0000000000000100 t fdr_bench::work::traced::leaf_loop
0000000000002000 0000000000000040 d fdr_bench::work::traced::leaf::SITE
                 U memcpy
";
        assert_eq!(code_bytes(symbols, "::untraced::leaf"), Some(30.0));
        assert_eq!(code_bytes(symbols, "::traced::leaf"), Some(80.0));
        assert_eq!(code_bytes(symbols, "::traced::twig"), None);
    }

    #[test]
    fn the_sum_of_callgrind_is_found() {
        let log = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n";
        assert_eq!(collected(log), Some(123_456.0));
        assert_eq!(collected("==7== nothing\n"), None);
    }
}
