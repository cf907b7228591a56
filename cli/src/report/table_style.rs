//! How the tables of a report look.

use fdr_formats::TraceInfo;

use crate::columns::Columns;

/// How a table is to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableStyle {
    /// With a column for file and line.
    pub(crate) places: bool,
    /// With a bold head.
    pub(crate) colour: bool,
    /// The width that there is; `None`: any.
    pub(crate) columns: Option<usize>,
    /// Without figures of time.
    pub(crate) timeless: bool,
    /// The table is of a part that ends at a chosen moment.
    pub(crate) ends_early: bool,
}

impl TableStyle {
    /// Columns that look like that. The first `right` ones hold numbers.
    pub(super) fn columns<'a>(self, head: &'a [&'a str], right: usize) -> Columns<'a> {
        Columns {
            head,
            right,
            colour: self.colour,
            width: self.columns,
            ..Columns::default()
        }
    }
}

/// When the trace was written, or the part of it ends.
pub(super) fn when(info: &TraceInfo, ends_early: bool) -> &'static str {
    match info.reason.as_str() {
        _ if ends_early => "at the end of the window",
        "exit" => "at exit",
        "SIGINT" | "SIGTERM" => "when a signal ended it",
        "killed" => "when it was killed",
        reason if reason.starts_with("crash: ") => "when it crashed",
        reason if reason.starts_with("panic") => "at the panic",
        reason if reason.starts_with("call") => "when it was dumped",
        "signal" | "control" | "snapshot" => "when it was dumped",
        _ => "at the end",
    }
}
