//! The result of marking a workspace: the new text of each file and manifest, and the decision for each function.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::files::{Files, files_of};
use crate::manifest::{Recorder, with_dependency, without_dependency};
use crate::marks::{Choice, Function, Layout, Verdict, mark, with_marks};
use crate::workspace::Package;
use crate::write::Change;

/// The planned changes of packages.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Manifests and source files whose text changes.
    pub(crate) manifests: Vec<Change>,
    pub(crate) sources: Vec<Change>,
    pub(crate) functions: Vec<(PathBuf, Function)>,
    pub(crate) packages: Vec<Counts>,
    /// The files and functions that stay unchanged, and the reasons.
    pub(crate) left: Vec<String>,
}

/// A package's functions.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) package: String,
    pub(crate) marked: usize,
    pub(crate) left_out: usize,
}

/// How functions are marked.
#[derive(Debug)]
pub(crate) struct Marking {
    pub(crate) choice: Choice,
    pub(crate) layout: Layout,
    pub(crate) recorder: Recorder,
}

impl Plan {
    /// The plan that marks the functions of packages.
    ///
    /// # Errors
    /// Where a file cannot be read, or a manifest has no place for the dependency.
    pub(crate) fn mark(packages: &[&Package], marking: &Marking) -> anyhow::Result<Plan> {
        let mut plan = Plan::default();
        for package in packages {
            match package.is_left_out() {
                Some(why) => plan
                    .left
                    .push(format!("{}: left as it is: {why}", package.name)),
                None => plan.mark_package(package, marking)?,
            }
        }
        Ok(plan)
    }

    fn mark_package(&mut self, package: &Package, marking: &Marking) -> anyhow::Result<()> {
        let Files { files, left } = files_of(package, &marking.choice)?;
        self.left.extend(left);
        let all = files.iter().flat_map(|file| &file.functions);
        let marked = all
            .clone()
            .filter(|function| function.verdict == Verdict::Marked);
        let marked = marked.count();
        self.packages.push(Counts {
            package: package.name.clone(),
            marked,
            left_out: all.count() - marked,
        });
        let sees = self.manifest(package, marking, marked > 0)?;
        let mark = mark(&sees);
        for file in files {
            let text = with_marks(&file.clean, &file.functions, &mark, marking.layout);
            if text != file.text {
                self.sources.push(Change {
                    path: file.path.clone(),
                    text,
                });
            }
            let functions = file.functions.into_iter();
            self.functions
                .extend(functions.map(|function| (file.path.clone(), function)));
        }
        Ok(())
    }

    /// Plans the dependency; the name under which the package sees `fdr`.
    fn manifest(
        &mut self,
        package: &Package,
        marking: &Marking,
        is_needed: bool,
    ) -> anyhow::Result<String> {
        let path = &package.manifest_path;
        let shown = path.display();
        let text = read(path)?;
        let clean = without_dependency(&text);
        if clean.is_none() {
            if let Some(name) = package.sees_fdr() {
                return Ok(name);
            }
            if let Some(name) = package.in_the_way().filter(|_| is_needed) {
                bail!(
                    "{shown}: the name fdr is taken by the dependency {name}, which is another crate, optional or for \
                     one platform; rename it, or make it a plain dependency on fdr"
                );
            }
        }
        let clean = clean.unwrap_or_else(|| text.clone());
        let changed = match is_needed {
            true => {
                with_dependency(&clean, &marking.recorder).with_context(|| shown.to_string())?
            }
            false => clean,
        };
        if changed != text {
            self.manifests.push(Change {
                path: path.clone(),
                text: changed,
            });
        }
        Ok("fdr".to_owned())
    }

    /// The plan that takes out what a plan of [`Plan::mark`] put in.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub(crate) fn remove(packages: &[&Package]) -> anyhow::Result<Plan> {
        let mut plan = Plan::default();
        for package in packages {
            let Files { files, left } = files_of(package, &Choice::default())?;
            plan.left.extend(left);
            let changed = files.into_iter().filter(|file| file.text != file.clean);
            plan.sources.extend(changed.map(|file| Change {
                path: file.path,
                text: file.clean,
            }));
            let path = &package.manifest_path;
            if let Some(text) = without_dependency(&read(path)?) {
                plan.manifests.push(Change {
                    path: path.clone(),
                    text,
                });
            }
        }
        Ok(plan)
    }

    /// How many functions each reason leaves out.
    pub(crate) fn reasons(&self) -> BTreeMap<&'static str, usize> {
        let mut reasons = BTreeMap::new();
        for (_, function) in &self.functions {
            if let Some(reason) = function.verdict.short() {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        reasons
    }
}

/// # Errors
/// Where the file cannot be read, or is not UTF-8.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}
