//! The guide's fourth program, as the guide has it: how often was each function called in the whole run?

use std::collections::BTreeMap;
use std::path::Path;

use fdr_formats::model::{self, FunctionTotals};
use fdr_formats::{Error, FunctionId};

/// Of each function: calls of the whole run, their self time in ns, and the name.
pub(crate) fn whole_run(path: &Path) -> Result<Vec<(u64, u64, String)>, Error> {
    let source = fdr_formats::open(path)?;
    let info = source.info();
    let threads = info.threads.iter().flat_map(|thread| &thread.totals);
    let mut sums: BTreeMap<FunctionId, FunctionTotals> = BTreeMap::new();
    for totals in threads.chain(&info.missing_totals) {
        sums.entry(totals.function).or_default().add(totals);
    }
    // Calls that were only counted have no time, and functions that were only looked at have calls that left nothing. Both
    // are estimated.
    let has_times = |id| info.function(id).is_none_or(|known| !known.untimed);
    let figures = model::figures(&sums, &has_times).into_iter();
    let figures = figures.map(|(id, figures)| {
        let name = info.function(id).map_or("?", |known| &known.name);
        (
            figures.calls,
            info.clock.nanos(figures.own).0,
            name.to_owned(),
        )
    });
    Ok(figures.collect())
}

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or("app.fdr".into());
    for (calls, own, name) in whole_run(Path::new(&path))? {
        println!("{calls:>10}  {own:>12} ns  {name}");
    }
    Ok(())
}
