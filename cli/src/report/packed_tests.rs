//! Packed calls and single calls, by the fast path and by the slow path. The figures must be the same.

use fdr_formats::packed::Packed;
use fdr_formats::{Call, Diagnostic, Function, FunctionId, Mark, Sink, Thread};

use super::engine::{Engine, gather};
use super::stats::MIN_ASSIGNED_PLACE;
use crate::testing::packed::batches;
use crate::testing::{MemoryTrace, entry, exit};

/// The function that, untimed, makes an engine look at every call with care.
const CARE: u32 = 77;

fn engine(careful: bool) -> Engine {
    let mut trace = MemoryTrace::default();
    trace.info.functions = vec![Function {
        id: FunctionId(CARE),
        untimed: careful,
        ..Function::default()
    }];
    let mut engine = Engine::new(&trace, false);
    engine.thread(&Thread::default());
    engine.calls(&[entry(1 << 40, CARE), exit(1 << 40, CARE)]);
    engine
}

/// Gives every call by itself.
struct Single(Engine);

impl Sink for Single {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        calls.iter().for_each(|call| self.0.calls(&[*call]));
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, _: Diagnostic) {}
}

fn figures(engine: Engine) -> String {
    let mut figures = gather(vec![engine], false).unwrap();
    figures.functions.remove(&FunctionId(CARE));
    let Some(part) = figures.threads.first() else {
        return String::new();
    };
    let thread = (part.first, part.last, part.records, part.synthetic);
    format!("{thread:?} {:?} {:?}", figures.flaws, figures.functions)
}

#[test]
fn haste_changes_no_figure() {
    for seed in 1..60 {
        let batches = batches(seed, u64::from(MIN_ASSIGNED_PLACE));
        let packed = |careful| {
            let mut engine = engine(careful);
            for (base, words) in &batches {
                let (packed, _) = Packed::new(*base, words.as_flattened());
                assert_eq!(packed.len(), words.len());
                engine.packed(&packed);
            }
            figures(engine)
        };
        let mut single = Single(engine(false));
        for (base, words) in &batches {
            single.packed(&Packed::new(*base, words.as_flattened()).0);
        }
        let careful = packed(true);
        assert_eq!(packed(false), careful, "{seed}");
        assert_eq!(figures(single.0), careful, "{seed}");
    }
}
