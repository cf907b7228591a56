//! The names of functions, for people.

use fdr_formats::{FunctionId, TraceInfo};

use super::stats::OTHERS;

/// The name of a function, for people: as the trace has it, or `#12`.
pub(crate) fn name_of(info: &TraceInfo, id: FunctionId) -> String {
    match info.function(id) {
        Some(function) if !function.name.is_empty() => function.name.clone(),
        _ if id == OTHERS => "(further functions)".into(),
        _ => id.to_string(),
    }
}
