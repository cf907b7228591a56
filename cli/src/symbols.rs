//! Names of the program's own functions for addresses of its code, from the files that were loaded into it. A file is
//! read when its first address is asked for.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use addr2line::Loader;
use fdr_formats::model::Module;
use object::Object;
use object::read::ReadCache;
use object::read::elf::ElfFile64;

/// Where an address is in the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CodeLocation {
    /// The function; or, if that is not known, the file and the address that the file has for it: `libc.so.6+0x1d2f0`.
    pub(crate) function: String,
    /// Its source file and line.
    pub(crate) line: Option<(String, u32)>,
}

/// The files of a trace.
pub(crate) struct Symbols<'a> {
    modules: &'a [Module],
    /// By the file's place in the list. `None`: it can't be used.
    open: HashMap<usize, Option<Loader>>,
}

impl<'a> Symbols<'a> {
    pub(crate) fn new(modules: &'a [Module]) -> Symbols<'a> {
        Symbols {
            modules,
            open: HashMap::new(),
        }
    }

    /// Where an address is.
    pub(crate) fn place(&mut self, address: u64) -> CodeLocation {
        let is_in = |module: &Module| (module.start..module.end).contains(&address);
        let Some(at) = self.modules.iter().position(is_in) else {
            return CodeLocation {
                function: format!("{address:#x}"),
                line: None,
            };
        };
        let module = &self.modules[at];
        let own = address.wrapping_sub(module.bias);
        let loader = self.open.entry(at).or_insert_with(|| open(module));
        let found = loader.as_ref().and_then(|loader| frame(loader, own));
        found.unwrap_or_else(|| {
            let name = Path::new(&module.path).file_name();
            let name = name.map_or(module.path.as_str().into(), |name| name.to_string_lossy());
            CodeLocation {
                function: format!("{name}+{own:#x}"),
                line: None,
            }
        })
    }
}

/// The file, if it is still the one that was loaded.
fn open(module: &Module) -> Option<Loader> {
    // Reads only the needed parts of the file, because a program with debug information may be larger than the memory
    // limit.
    let bytes = ReadCache::new(File::open(&module.path).ok()?);
    let file = ElfFile64::<object::Endianness, _>::parse(&bytes).ok()?;
    let build = file.build_id().ok()?;
    if build.unwrap_or_default() != module.build {
        return None;
    }
    Loader::new(&module.path).ok()
}

/// The innermost of the functions at this address that is the program's own. If there is none, the function that
/// contains the address: a function of the standard library says little about where the program was.
fn frame(loader: &Loader, address: u64) -> Option<CodeLocation> {
    let mut last = None;
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(frame)) = frames.next() {
            let line = frame
                .location
                .and_then(|location| Some((location.file?.to_owned(), location.line?)));
            let Some(function) = frame.function else {
                continue;
            };
            let raw = function.raw_name().ok()?.into_owned();
            let is_own = line
                .as_ref()
                .is_some_and(|(file, _)| !is_of_the_library(file));
            last = Some(CodeLocation {
                function: function_name(&raw),
                line,
            });
            if is_own {
                return last;
            }
        }
    }
    last.or_else(|| {
        let symbol = loader.find_symbol(address)?;
        Some(CodeLocation {
            function: function_name(symbol),
            line: None,
        })
    })
}

fn is_of_the_library(file: &str) -> bool {
    file.starts_with("/rustc/") || file.contains("/lib/rustlib/src/rust/library/")
}

/// The rooms of the crate `fdr` that record. Others run the program's own code, as the locks of `fdr::sync` do.
const RECORDER: [&str; 8] = [
    "clock",
    "crash",
    "dump",
    "primitive",
    "recorder",
    "ring",
    "shell",
    "sys",
];

/// The name of a symbol without its hash. All functions of the recorder have one name.
fn function_name(symbol: &str) -> String {
    let name = format!("{:#}", rustc_demangle::demangle(symbol));
    let of_crate = name.strip_prefix("fdr::");
    match of_crate.and_then(|rest| rest.split_once("::")) {
        Some((part, _)) if RECORDER.contains(&part) => "(recorder)".to_owned(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[inline(never)]
    fn here() -> u64 {
        here as fn() -> u64 as usize as u64
    }

    /// The test program itself, as it is loaded.
    fn own() -> Module {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let path = fs::read_link("/proc/self/exe").unwrap();
        let path = path.to_string_lossy().into_owned();
        let first = maps.lines().find(|line| line.ends_with(&path)).unwrap();
        let (bias, _) = first.split_once('-').unwrap();
        let bytes = fs::read(&path).unwrap();
        let file = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
        let build = file.build_id().unwrap().unwrap_or_default().to_vec();
        Module {
            start: 1,
            end: u64::MAX,
            bias: u64::from_str_radix(bias, 16).unwrap(),
            build,
            path,
        }
    }

    #[test]
    fn a_function_of_this_program_is_found() {
        let modules = [own()];
        let place = Symbols::new(&modules).place(here());
        assert!(
            place.function.ends_with("symbols::tests::here"),
            "{place:?}"
        );
    }

    #[test]
    fn the_recorder_has_one_name() {
        for (name, wanted) in [
            (
                "fdr::recorder::stub::slot_access::SLOT_ACCESS.counted",
                "(recorder)",
            ),
            ("fdr::shell::dumper::run", "(recorder)"),
            ("fdr::sync::mutex::lock", "fdr::sync::mutex::lock"),
            ("fdr::private", "fdr::private"),
            ("app::fdr::ring::turn", "app::fdr::ring::turn"),
        ] {
            assert_eq!(function_name(name), wanted);
        }
    }

    #[test]
    fn another_build_of_a_file_names_nothing() {
        let mut module = own();
        module.build = vec![1, 2, 3];
        let own = here().wrapping_sub(module.bias);
        let name = Path::new(&module.path).file_name().unwrap();
        let wanted = format!("{}+{own:#x}", name.to_string_lossy());
        let modules = [module];
        let place = Symbols::new(&modules).place(here());
        assert_eq!((place.function, place.line), (wanted, None));
        let missing = [Module {
            path: "/no/such/file".to_owned(),
            ..modules[0].clone()
        }];
        let place = Symbols::new(&missing).place(here());
        assert_eq!(place.function, format!("file+{own:#x}"));
        assert_eq!(Symbols::new(&[]).place(16).function, "0x10");
    }
}
