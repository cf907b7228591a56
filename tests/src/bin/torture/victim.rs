//! The program that cases do something to, and the page in which it counts for itself. Must never tell the
//! program what its recorder is to be compared with.

use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{CHUNKS, Truth};

use crate::child::Child;
use crate::plan::{Folder, Plan};

/// How much time a ring is to hold: in some tries each call leaves its records, in others short ones leave none.
pub(crate) fn keep(random: &mut Random) -> &'static str {
    ["FDR_KEEP=0", "FDR_KEEP=10s", "FDR_KEEP=20ms"][random.below(3) as usize]
}

/// KiB of the totals of a ring of that many chunks, four at most.
pub(crate) const TOTALS_KIB: u64 = 128;

/// A part of `torture_victim`: its name, and the numbers that it is told, the seed first.
pub(crate) struct Part<'a>(pub(crate) &'a str, pub(crate) [u64; 3]);

impl Part<'_> {
    /// Starts it in the folder, each thread's ring so many chunks long, with these of the recorder's other
    /// variables: `FDR_MEMORY=4M FDR_OUT=%n.fdr`. Every call leaves its records, because they are compared with the
    /// calls that the program made.
    pub(crate) fn start(
        &self,
        plan: &Plan,
        folder: &Folder,
        chunks: u64,
        variables: &str,
    ) -> Result<(Child, Truth), String> {
        let truth = Truth::create(&folder.join("page")).map_err(|error| error.to_string())?;
        truth.set(0, CHUNKS, chunks);
        let Part(name, numbers) = *self;
        let mut words = vec![name.to_owned(), "page".to_owned()];
        words.extend(numbers.map(|number| number.to_string()));
        let program = plan.programs.join("torture_victim");
        let variables = format!("FDR=1 FDR_KEEP=0 FDR_BUFFER={}K {variables}", 64 * chunks);
        let child = Child::start(&program, folder.path(), &variables, &words)?;
        Ok((child, truth))
    }
}
