//! The program that cases do something to, and the page in which it counts for itself.

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, Running};
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{CHUNKS, Truth, WAY, way};

use crate::plan::Try;

/// The recorder's settings, and whether the program uses everything that the recorder offers.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// The time that a ring should hold. In some tries each call leaves its records. In others short calls leave none.
    keep: &'static str,
    /// One of [`way`], but for what short calls leave.
    way: u64,
    has_trigger: bool,
}

impl Setting {
    /// Every call leaves its records; in the first try and each second one all is on.
    pub(crate) fn exact(attempt: &Try<'_>) -> Setting {
        Setting {
            keep: "0",
            way: match attempt.index % 2 {
                0 => way::NOTED,
                _ => way::PLAIN,
            },
            has_trigger: false,
        }
    }

    /// The same with any time that a ring is to hold.
    pub(crate) fn any(attempt: &Try<'_>, random: &mut Random) -> Setting {
        Setting {
            keep: ["0", "10s", "20ms"][random.below(3) as usize],
            ..Setting::exact(attempt)
        }
    }

    /// A trigger fires at the first task, if all is on.
    pub(crate) fn with_trigger(self) -> Setting {
        Setting {
            has_trigger: true,
            ..self
        }
    }

    /// Of the settings that use functions alone and may leave calls out, half have so small a budget that functions are
    /// only counted.
    pub(crate) fn with_counted(self, random: &mut Random) -> Setting {
        let may = self.way == way::PLAIN && self.keep != "0";
        match may && random.below(2) == 0 {
            true => Setting {
                way: way::COUNTED,
                ..self
            },
            false => self,
        }
    }

    /// Counts a program whose functions may be only counted.
    pub(crate) fn count(self, attempt: &Try<'_>) {
        if self.way == way::COUNTED {
            attempt.count("programs whose functions may be only counted", 1);
        }
    }

    /// The word of the page.
    fn word(self) -> u64 {
        match self.way {
            way::NOTED if self.keep != "0" => way::NOTED_AND_SHORT,
            way => way,
        }
    }

    fn variables(self, seed: u64) -> String {
        let mut variables = format!("FDR_KEEP={}", self.keep);
        if self.way == way::COUNTED {
            variables += " FDR_BUDGET=0.0001%";
        }
        if self.way == way::NOTED {
            variables += &format!(" FDR_SCHED=1 FDR_TAGS={}", tags(seed));
            if self.has_trigger {
                variables += " FDR_TRIGGER=torture_victim::noted::strand>1us,exit";
            }
        }
        variables
    }
}

/// What a trace of all says of its program.
pub(crate) fn tags(seed: u64) -> String {
    format!("seed={seed},all=on")
}

/// KiB of the totals of a ring of that many chunks, four at most.
pub(crate) const TOTALS_KIB: u64 = 128;

/// A part of `torture_victim`: its name, and its numeric arguments, the seed first.
pub(crate) struct Part<'a>(pub(crate) &'a str, pub(crate) [u64; 3]);

impl Part<'_> {
    /// Starts the part in the folder. A thread's ring has `chunks` chunks. The last argument has other variables of the
    /// recorder, such as `FDR_MEMORY=4M FDR_OUT=%n.fdr`.
    pub(crate) fn start(
        &self,
        attempt: &Try<'_>,
        folder: &Folder,
        chunks: u64,
        setting: Setting,
        variables: &str,
    ) -> (Running, Truth) {
        let truth = Truth::create(&folder.join("page")).expect("a page");
        truth.set(0, CHUNKS, chunks);
        truth.set(0, WAY, setting.word());
        let Part(name, numbers) = self;
        let program = Program::new(attempt.program("torture_victim"), folder)
            .args(&[*name, "page"])
            .args(&numbers.map(|number| number.to_string()))
            .set("FDR=1")
            .set(&setting.variables(numbers[0]))
            .set(&format!("FDR_BUFFER={}K", 64 * chunks))
            .set(variables);
        (program.start(), truth)
    }
}
