//! Names of the objects that threads wait for. A program makes them as it runs. A thread that is about to wait needs
//! the id of a name. So this code must never wait for the table of sites, because the thread that holds the table may
//! be about to wait, too.

use fdr_formats::text;

use super::sites::table;
use crate::recorder::wait;

/// How often the table is asked for.
const MAX_READS: u32 = 64;

/// From now on such names get ids.
pub(super) fn begin() {
    wait::set_namer(id_of);
}

fn id_of(name: &'static str, of: &'static str, file: &'static str, line: u32) -> u32 {
    for _ in 0..MAX_READS {
        if let Some(mut table) = table().try_lock() {
            let name = match name {
                "" => {
                    let file = text::path_in_crate(file);
                    format!("{} ({file}:{line})", without_paths(of))
                }
                name => name.to_owned(),
            };
            return table.id_of_name(name, file, line);
        }
        std::thread::yield_now();
    }
    0
}

/// A type without the modules of its parts: `Mutex<Vec<Job>>`.
fn without_paths(of: &str) -> String {
    let mut out = String::with_capacity(of.len());
    // Where the current path begins.
    let mut start = 0;
    let mut rest = of;
    while let Some(next) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("::") {
            out.truncate(start);
            rest = behind;
            continue;
        }
        out.push(next);
        if next.is_ascii() && !next.is_ascii_alphanumeric() && next != '_' {
            start = out.len();
        }
        rest = &rest[next.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::without_paths;

    #[test]
    fn types_lose_their_modules() {
        for (of, wanted) in [
            ("u32", "u32"),
            (
                "fdr::sync::mutex::Mutex<alloc::vec::Vec<app::Job>>",
                "Mutex<Vec<Job>>",
            ),
            (
                "a::M<(a::b::C, &mut dyn d::E<f::G>)>",
                "M<(C, &mut dyn E<G>)>",
            ),
            ("a::M<a::main::{{closure}}>", "M<{{closure}}>"),
            ("a::M<é::ü>", "M<ü>"),
        ] {
            assert_eq!(without_paths(of), wanted);
        }
    }
}
