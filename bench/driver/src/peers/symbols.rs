//! Code bytes of functions, by `nm`.

use std::path::Path;

use xshell::cmd;
use xtask::process::{output, shell};

use crate::Result;

/// Of the untraced twin, and of the traced one.
pub(crate) type Twins = [f64; 2];

/// Code bytes of two functions, each known by the first of its names that is there.
///
/// # Errors
/// If `nm` (Debian package binutils) is missing, or the program has no such symbols.
pub(super) fn code_bytes(program: &Path, twins: [&[&str]; 2]) -> Result<Twins> {
    let sh = shell()?;
    let (symbols, _) = output(cmd!(
        sh,
        "nm --print-size --demangle --defined-only {program}"
    ))?;
    let [untraced, traced] = twins.map(|names| {
        let mut found = names.iter().filter_map(|name| bytes_of(&symbols, name));
        found
            .next()
            .ok_or_else(|| format!("no symbol {names:?} in {}", program.display()))
    });
    Ok([untraced?, traced?])
}

/// Sum of the sizes of the function and of what belongs to it (closures, parts split off).
fn bytes_of(symbols: &str, function: &str) -> Option<f64> {
    let size = |line: &str| {
        // Address, size, kind, name: only functions have kind t or T.
        let mut fields = line.splitn(4, ' ');
        let (size, kind, name) = (fields.nth(1)?, fields.next()?, fields.next()?);
        let (_, rest) = name.split_once(function)?;
        // The name ends there, or a closure, a hash or a suffix follows; not `leaf_loop`.
        let whole = rest.is_empty() || rest.starts_with(['.', ':', ' ']);
        let size = u64::from_str_radix(size, 16).ok()?;
        (whole && matches!(kind, "t" | "T")).then_some(size as f64)
    };
    let sizes: Vec<f64> = symbols.lines().filter_map(size).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
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
        assert_eq!(bytes_of(symbols, "::untraced::leaf"), Some(30.0));
        assert_eq!(bytes_of(symbols, "::traced::leaf"), Some(80.0));
        assert_eq!(bytes_of(symbols, "::traced::twig"), None);
    }
}
