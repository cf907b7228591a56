//! The guide's first program, as the guide has it: how often was each function called?

use std::collections::BTreeMap;
use std::path::Path;

use fdr_formats::source::drive;
use fdr_formats::{Call, Edge, Error, FunctionId, Sink};

#[derive(Default)]
struct Count(BTreeMap<FunctionId, u64>);

impl Sink for Count {
    fn calls(&mut self, calls: &[Call]) {
        for call in calls.iter().filter(|call| call.edge == Edge::Entry) {
            *self.0.entry(call.function).or_default() += 1;
        }
    }
}

pub(crate) fn count_calls(path: &Path) -> Result<Vec<(u64, String)>, Error> {
    let source = fdr_formats::open(path)?;
    let mut count = Count::default();
    drive(&*source, &mut count, &|_bytes_done| {})?;
    let name = |id| source.info().function(id).map_or("?", |known| &known.name);
    let named = |(&id, &calls)| (calls, name(id).to_owned());
    Ok(count.0.iter().map(named).collect())
}

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or("app.fdr".into());
    for (calls, name) in count_calls(Path::new(&path))? {
        println!("{calls:>10}  {name}");
    }
    Ok(())
}
