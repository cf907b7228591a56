//! The workloads: which program, started how, on what. Some programs are libraries; a small program of ours uses them.
//! Its source is in `bench/whole`, and it is not marked.

use std::path::Path;

use xtask::programs::{PROGRAMS, Program};

use super::inputs::Input;
use crate::Result;

/// What a program is made to do.
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// The program's name in the list of other people's programs.
    pub(super) program: &'static str,
    /// Words of its command line. `INPUT` is the path of its input.
    pub(super) arguments: &'static str,
    pub(super) input: Input,
    /// Whether two runs make the same calls and print the same.
    pub(super) repeats: bool,
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

/// Most of what oxipng does with `--zopfli` is done by another crate, which is marked here, too.
const OXIPNG: Program = Program {
    name: "oxipng",
    packages: &[("oxipng", "10.1.1"), ("zopfli", "0.8.4")],
    tests: "",
    run: None,
};

/// How a program is built: its package and program, or a source of ours; and the file that a person edits.
pub(super) struct Recipe {
    pub(super) program: &'static str,
    pub(super) run: Run,
    /// Below the folder of the sources.
    pub(super) touched: &'static str,
}

pub(super) enum Run {
    /// A program of a package.
    Own {
        package: &'static str,
        binary: &'static str,
    },
    /// A program of ours.
    Ours {
        source: &'static str,
        /// Lines of its manifest.
        dependencies: &'static str,
    },
}

pub(super) const RECIPES: [Recipe; PROGRAMS.len()] = [
    Recipe {
        program: "ripgrep",
        run: Run::Own {
            package: "ripgrep",
            binary: "rg",
        },
        touched: "grep-searcher/src/lib.rs",
    },
    Recipe {
        program: "mini-redis",
        run: Run::Ours {
            source: include_str!("../../../whole/mini-redis.rs"),
            dependencies: "mini-redis = { path = \"../mini-redis\" }\ntokio = { version = \"1\", features = [\"full\"] }\n",
        },
        touched: "mini-redis/src/lib.rs",
    },
    Recipe {
        program: "oxipng",
        run: Run::Own {
            package: "oxipng",
            binary: "oxipng",
        },
        touched: "oxipng/src/lib.rs",
    },
    Recipe {
        program: "boa",
        run: Run::Ours {
            source: include_str!("../../../whole/boa.rs"),
            dependencies: "boa_engine = { path = \"../boa_engine\" }\n",
        },
        touched: "boa_engine/src/lib.rs",
    },
    Recipe {
        program: "gluesql-core",
        run: Run::Ours {
            source: include_str!("../../../whole/gluesql.rs"),
            dependencies: "gluesql-core = { path = \"../gluesql-core\" }\ngluesql_memory_storage = \"=0.20.0\"\n",
        },
        touched: "gluesql-core/src/lib.rs",
    },
    Recipe {
        program: "winnow",
        run: Run::Ours {
            source: include_str!("../../../whole/winnow.rs"),
            dependencies: "winnow = { path = \"../winnow\" }\n",
        },
        touched: "winnow/src/lib.rs",
    },
    Recipe {
        program: "hashbrown",
        run: Run::Ours {
            source: include_str!("../../../whole/hashbrown.rs"),
            dependencies: "hashbrown = { path = \"../hashbrown\" }\n",
        },
        touched: "hashbrown/src/lib.rs",
    },
    Recipe {
        program: "heapless",
        run: Run::Ours {
            source: include_str!("../../../whole/heapless.rs"),
            dependencies: "heapless = { path = \"../heapless\" }\n",
        },
        touched: "heapless/src/lib.rs",
    },
    Recipe {
        program: "naga",
        run: Run::Ours {
            source: include_str!("../../../whole/naga.rs"),
            dependencies: "naga = { path = \"../naga\", features = [\"wgsl-in\", \"spv-out\"] }\n",
        },
        touched: "naga/src/lib.rs",
    },
    Recipe {
        program: "cranelift-codegen",
        run: Run::Ours {
            source: include_str!("../../../whole/cranelift.rs"),
            dependencies: "cranelift-codegen = { path = \"../cranelift-codegen\" }\ncranelift-frontend = \"=0.135.8\"\n",
        },
        touched: "cranelift-codegen/src/lib.rs",
    },
];

/// Each takes two seconds or more, because a run of half a second shows what its start costs.
pub(super) const WORKLOADS: [Workload; 11] = [
    Workload {
        name: "ripgrep",
        program: "ripgrep",
        arguments: "--line-number --ignore-case --threads 2 st[a-z]*er|record INPUT INPUT INPUT INPUT INPUT",
        input: Input::Texts,
        repeats: false,
    },
    ours("mini-redis", "mini-redis", "200000", false),
    picture("oxipng -o 4", "-o 4 --strip all --stdout INPUT", 1152),
    picture(
        "oxipng zopfli",
        "-o 2 --zopfli --zi 5 --strip all --stdout INPUT",
        704,
    ),
    Workload {
        name: "boa",
        program: "boa",
        arguments: "INPUT 4",
        input: Input::Script(include_str!("../../../whole/boa.js")),
        repeats: false,
    },
    ours("gluesql-core", "gluesql-core", "600", false),
    ours("winnow", "winnow", "800", true),
    ours("hashbrown", "hashbrown", "1600", true),
    ours("heapless", "heapless", "500000", true),
    ours("naga", "naga", "600", true),
    ours("cranelift-codegen", "cranelift-codegen", "10000", true),
];

/// A program of ours. Its arguments say how much it does.
const fn ours(
    name: &'static str,
    program: &'static str,
    arguments: &'static str,
    repeats: bool,
) -> Workload {
    Workload {
        name,
        program,
        arguments,
        input: Input::Nothing,
        repeats,
    }
}

/// How far oxipng tries a picture depends on which thread is first. The order of maps in boa and gluesql-core is random.
const fn picture(name: &'static str, arguments: &'static str, side: u32) -> Workload {
    Workload {
        name,
        program: "oxipng",
        arguments,
        input: Input::Picture { side },
        repeats: false,
    }
}

/// The workloads with these names or of these programs, or all.
///
/// # Errors
/// If a name is none of either.
pub(super) fn choose(names: &[String]) -> Result<Vec<&'static Workload>> {
    let is_called =
        |workload: &Workload, name: &String| workload.name == name || workload.program == name;
    for name in names {
        if !WORKLOADS.iter().any(|workload| is_called(workload, name)) {
            let known = WORKLOADS.each_ref().map(|workload| workload.name);
            let known = known.join(", ");
            return Err(format!("no program {name:?}; they are {known}").into());
        }
    }
    let chosen = WORKLOADS
        .iter()
        .filter(|workload| names.is_empty() || names.iter().any(|name| is_called(workload, name)));
    Ok(chosen.collect())
}

/// The programs of the workloads, each once.
pub(super) fn programs(chosen: &[&Workload]) -> impl Iterator<Item = &'static Program> {
    let chosen = PROGRAMS
        .iter()
        .filter(|program| chosen.iter().any(|all| all.program == program.name));
    chosen.map(|program| match program.name == OXIPNG.name {
        true => &OXIPNG,
        false => program,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_recipe_and_a_workload() {
        for program in &PROGRAMS {
            assert!(RECIPES.iter().any(|recipe| recipe.program == program.name));
            let chosen = choose(&[program.name.to_owned()]).expect("a program's name");
            assert!(!chosen.is_empty());
            let mut programs = programs(&chosen).map(|program| program.name);
            assert_eq!(programs.next(), Some(program.name));
            assert_eq!(programs.next(), None);
        }
        let mut oxipng = PROGRAMS.iter().filter(|all| all.name == OXIPNG.name);
        let packages = oxipng.next().expect("oxipng").packages;
        assert!(
            packages
                .iter()
                .all(|package| OXIPNG.packages.contains(package))
        );
        for recipe in &RECIPES {
            let (package, _) = recipe.touched.split_once('/').expect("a package's folder");
            let mut of_program = PROGRAMS.iter().filter(|all| all.name == recipe.program);
            let program = of_program.next().expect("a program of the list");
            assert!(program.packages.iter().any(|(name, _)| *name == package));
        }
    }

    #[test]
    fn workloads_are_chosen_by_name_or_program() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            choose(&words).map(|all| all.iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).expect("all").len(), WORKLOADS.len());
        assert_eq!(names(&["oxipng"]).expect("a program").len(), 2);
        assert_eq!(names(&["oxipng zopfli", "boa"]).expect("two").len(), 2);
        let boa = choose(&["boa".to_owned()]).expect("boa")[0];
        assert_eq!(
            boa.words(Path::new("a b")).collect::<Vec<_>>(),
            ["a b", "4"]
        );
        let error = names(&["vim"]).expect_err("no program").to_string();
        assert!(
            error.contains("vim") && error.contains("mini-redis"),
            "{error}"
        );
    }
}
