//! The workloads: which program, started how, on what. Some programs are libraries; a small program of ours uses them.
//! List and sources are in `bench/whole`. Our programs are not marked.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use xtask::process::root;
use xtask::programs::{PROGRAMS, Program};

use super::inputs::Input;
use crate::Result;

/// How a program is built, and its workloads. `programs.toml` explains the fields.
#[derive(Clone, Deserialize)]
pub(super) struct Recipe {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) run: Run,
    pub(super) touched: String,
    #[serde(rename = "workload")]
    pub(super) workloads: Vec<Workload>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Run {
    /// A program of a package.
    Own { package: String, binary: String },
    /// A program of ours.
    Ours {
        source: String,
        /// Lines of its manifest.
        dependencies: String,
    },
}

/// What a program is made to do.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) name: String,
    arguments: String,
    #[serde(default)]
    pub(super) input: Input,
    /// Whether two runs make the same calls and print the same.
    #[serde(default)]
    pub(super) repeats: bool,
}

#[derive(Deserialize)]
struct List {
    #[serde(rename = "program")]
    programs: Vec<Recipe>,
}

/// The folder with the list, and with our sources.
pub(super) fn folder() -> PathBuf {
    root().join("bench/whole")
}

/// Most of what oxipng does with `--zopfli` is done by another crate, which is marked here, too.
const OXIPNG: Program = Program {
    name: "oxipng",
    packages: &[("oxipng", "10.1.1"), ("zopfli", "0.8.4")],
    tests: "",
    run: None,
};

impl Recipe {
    /// Its packages.
    ///
    /// # Errors
    /// If there is no such program.
    pub(super) fn program(&self) -> Result<&'static Program> {
        if self.name == OXIPNG.name {
            return Ok(&OXIPNG);
        }
        let mut programs = PROGRAMS.iter();
        let program = programs.find(|program| program.name == self.name);
        Ok(program.ok_or_else(|| format!("{} is no program of the list", self.name))?)
    }
}

impl Workload {
    /// Its words, with a path for `INPUT`.
    pub(super) fn words(&self, input: &Path) -> impl Iterator<Item = String> {
        let input = input.to_string_lossy().into_owned();
        let words = self.arguments.split_whitespace();
        words.map(move |word| match word {
            "INPUT" => input.clone(),
            word => word.to_owned(),
        })
    }
}

fn list() -> Result<Vec<Recipe>> {
    let list: List = toml::from_str(include_str!("../../../whole/programs.toml"))?;
    Ok(list.programs)
}

/// The programs of these names with their workloads, and the workloads of these names; or all.
///
/// # Errors
/// If a name is none of either.
pub(super) fn choose(names: &[String]) -> Result<Vec<Recipe>> {
    let mut recipes = list()?;
    for name in names {
        let is_known = |recipe: &Recipe| {
            let mut workloads = recipe.workloads.iter();
            recipe.name == *name || workloads.any(|workload| workload.name == *name)
        };
        if !recipes.iter().any(is_known) {
            let known: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
            return Err(format!("no program {name:?}; they are {}", known.join(", ")).into());
        }
    }
    for recipe in &mut recipes {
        if !names.is_empty() && !names.contains(&recipe.name) {
            recipe
                .workloads
                .retain(|workload| names.contains(&workload.name));
        }
    }
    recipes.retain(|recipe| !recipe.workloads.is_empty());
    Ok(recipes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_recipe_and_its_files() {
        let recipes = list().expect("a list");
        for program in &PROGRAMS {
            let mut recipes = recipes.iter();
            let recipe = recipes.find(|recipe| recipe.name == program.name);
            let recipe = recipe.expect(program.name);
            let marked = recipe.program().expect("a program").packages;
            let (touched, _) = recipe.touched.split_once('/').expect("a package's folder");
            assert!(marked.iter().any(|(name, _)| *name == touched));
            assert!(
                program
                    .packages
                    .iter()
                    .all(|package| marked.contains(package))
            );
            if let Run::Ours { source, .. } = &recipe.run {
                assert!(folder().join(source).is_file(), "{source}");
            }
        }
        assert_eq!(recipes.len(), PROGRAMS.len());
    }

    #[test]
    fn workloads_are_chosen_by_name_or_program() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let workloads = choose(&words)?
                .into_iter()
                .flat_map(|recipe| recipe.workloads);
            Ok::<_, Box<dyn std::error::Error>>(workloads.collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).expect("all").len(), 14);
        assert_eq!(names(&["oxipng"]).expect("a program").len(), 2);
        let two = names(&["oxipng zopfli", "boa"]).expect("two");
        assert_eq!(two.len(), 2);
        let words: Vec<String> = two[1].words(Path::new("a b")).collect();
        assert_eq!(words, ["a b", "4"]);
        let error = names(&["vim"]).err().expect("no program").to_string();
        assert!(
            error.contains("vim") && error.contains("mini-redis"),
            "{error}"
        );
    }
}
