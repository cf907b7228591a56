//! The source files of a package: from the root file of each target along its `mod` declarations, as the compiler goes,
//! also those that a macro is given. A file that only `include!` names is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::marks::{Choice, Function, Module, Source, Step};
use crate::workspace::Package;

/// A source file as it is, and its functions.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// The text without marks, which the functions' places are of.
    pub(crate) clean: String,
    pub(crate) functions: Vec<Function>,
}

/// A package's files, and the messages about files that are left unchanged.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) files: Vec<File>,
    pub(crate) left: Vec<String>,
}

/// Where a module's own modules are looked for.
#[derive(Clone, Debug)]
struct ModuleFolder {
    folder: PathBuf,
    /// The file's own name. If the file is not `mod.rs`, it comes before their names.
    relative: Option<String>,
}

/// The files of a package that the attribute may be put into.
///
/// # Errors
/// Where a file that exists cannot be read.
pub(crate) fn files_of(package: &Package, choice: &Choice) -> anyhow::Result<Files> {
    let folder = package.folder().canonicalize();
    let folder = folder.with_context(|| package.folder().display().to_string())?;
    let mut walk = Walk {
        folder,
        choice,
        visited: BTreeSet::new(),
        files: BTreeMap::new(),
        left: Vec::new(),
    };
    // A build script cannot see the package's dependencies, and what it shares is left out.
    for target in package.build_scripts() {
        walk.root(&target.src_path, &target.crate_name())?;
    }
    let scripts = std::mem::take(&mut walk.files);
    for path in scripts.keys().filter(|path| is_shared(path, package)) {
        walk.left.push(format!(
            "{}: left as it is: the build script uses it",
            path.display()
        ));
    }
    for target in package.programs() {
        walk.root(&target.src_path, &target.crate_name())?;
    }
    Ok(Files {
        files: walk.files.into_values().collect(),
        left: walk.left,
    })
}

fn is_shared(path: &Path, package: &Package) -> bool {
    let is_root = |root: &Path| root.canonicalize().is_ok_and(|root| root == path);
    !package
        .build_scripts()
        .any(|target| is_root(&target.src_path))
}

struct Walk<'a> {
    /// The package's. A file elsewhere may belong to a package that does not see `fdr`.
    folder: PathBuf,
    choice: &'a Choice,
    visited: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, File>,
    left: Vec<String>,
}

impl Walk<'_> {
    fn root(&mut self, path: &Path, name: &str) -> anyhow::Result<()> {
        let folder = path.parent().unwrap_or(path).to_owned();
        let place = ModuleFolder {
            folder,
            relative: None,
        };
        self.file(path, name, &place)
    }

    /// Reads a file and those of its modules.
    fn file(&mut self, path: &Path, scope: &str, place: &ModuleFolder) -> anyhow::Result<()> {
        let shown = path.display();
        let full = path.canonicalize().with_context(|| format!("{shown}"))?;
        if !self.visited.insert(full.clone()) {
            return Ok(());
        }
        let bytes = fs::read(&full).with_context(|| format!("{shown}"))?;
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                bail!("{shown}: byte {at} is not UTF-8, so the file is no Rust; mend it first");
            }
        };
        let parsed = Source::parse(&text).and_then(|source| {
            let clean = source.without_marks();
            drop(source);
            let clean = clean.unwrap_or_else(|| text.clone());
            let found = Source::parse(&clean)?.find(scope, self.choice);
            Ok((clean, found))
        });
        let (clean, (functions, modules)) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                let line = error.line;
                self.left.push(format!(
                    "{shown}:{line}: left as it is: no Rust that cargo fdr can read"
                ));
                return Ok(());
            }
        };
        if full.starts_with(&self.folder) {
            let file = File {
                path: full.clone(),
                text,
                clean,
                functions,
            };
            self.files.insert(full, file);
        } else {
            self.left.push(format!(
                "{shown}: left as it is: outside the package's folder"
            ));
        }
        for module in &modules {
            self.module(module, scope, path, place)?;
        }
        Ok(())
    }

    /// Follows one declaration to the files that it can mean: under different conditions these are several.
    fn module(
        &mut self,
        module: &Module,
        scope: &str,
        path: &Path,
        place: &ModuleFolder,
    ) -> anyhow::Result<()> {
        let Some((last, around)) = module.path.split_last() else {
            return Ok(());
        };
        // A test is no part of the program.
        if last.is_test {
            return Ok(());
        }
        let mut scope = scope.to_owned();
        let mut places = vec![place.clone()];
        let own_folder = path.parent().unwrap_or(path);
        for (depth, step) in around.iter().enumerate() {
            scope = format!("{scope}::{}", step.name);
            places = places
                .iter()
                .flat_map(|place| inline_places(place, step, own_folder, depth))
                .collect();
        }
        scope = format!("{scope}::{}", last.name);
        for place in &places {
            // `#[path]` is relative to the file, or to the inline modules around the declaration.
            let base = match around {
                [] => own_folder,
                _ => &place.folder,
            };
            for file in &last.files {
                let path = base.join(file);
                if path.is_file() {
                    let folder = path.parent().unwrap_or(&path).to_owned();
                    let place = ModuleFolder {
                        folder,
                        relative: None,
                    };
                    self.file(&path, &scope, &place)?;
                }
            }
            if !last.is_fixed {
                self.usual_file(&last.name, &scope, place)?;
            }
        }
        Ok(())
    }

    /// `NAME.rs` or `NAME/mod.rs`. A module that a condition leaves out needs no file.
    fn usual_file(&mut self, name: &str, scope: &str, place: &ModuleFolder) -> anyhow::Result<()> {
        let folder = match &place.relative {
            Some(relative) => place.folder.join(relative),
            None => place.folder.clone(),
        };
        let plain = folder.join(format!("{name}.rs"));
        if plain.is_file() {
            let place = ModuleFolder {
                folder: folder.clone(),
                relative: Some(name.to_owned()),
            };
            self.file(&plain, scope, &place)?;
        }
        let nested = folder.join(name).join("mod.rs");
        if nested.is_file() {
            let place = ModuleFolder {
                folder: folder.join(name),
                relative: None,
            };
            self.file(&nested, scope, &place)?;
        }
        Ok(())
    }
}

/// Where the modules in an inline module are looked for.
fn inline_places(
    place: &ModuleFolder,
    step: &Step,
    own_folder: &Path,
    depth: usize,
) -> Vec<ModuleFolder> {
    let base = if depth == 0 {
        own_folder
    } else {
        &place.folder
    };
    let mut places: Vec<ModuleFolder> = step
        .files
        .iter()
        .map(|file| ModuleFolder {
            folder: base.join(file),
            relative: None,
        })
        .collect();
    if !step.is_fixed {
        let mut folder = place.folder.clone();
        folder.extend(&place.relative);
        folder.push(&step.name);
        places.push(ModuleFolder {
            folder,
            relative: None,
        });
    }
    places
}
