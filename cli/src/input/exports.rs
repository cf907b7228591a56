//! Recognizes the files that `fdr convert` makes for other programs and that fdr does not read. So the error for such
//! a file can say what to do.

use std::path::Path;

/// A kind of file.
struct Kind {
    title: &'static str,
    extension: &'static str,
    /// How each begins; empty: as anything.
    head: &'static [u8],
}

const KINDS: &[Kind] = &[
    Kind {
        title: "Perfetto",
        extension: "perfetto-trace",
        head: b"",
    },
    Kind {
        title: "Chrome trace events",
        extension: "chrome.json",
        head: b"{\"displayTimeUnit\":",
    },
    Kind {
        title: "Firefox Profiler",
        extension: "firefox.json",
        head: b"{\"meta\":{",
    },
    Kind {
        title: "folded lines",
        extension: "folded",
        head: b"",
    },
    Kind {
        title: "pprof",
        extension: "pb.gz",
        head: b"",
    },
    Kind {
        title: "OTLP traces",
        extension: "otlp.pb",
        head: b"",
    },
    Kind {
        title: "OTLP traces as JSON lines",
        extension: "otlp.jsonl",
        head: b"{\"resourceSpans\":",
    },
    Kind {
        title: "CSV",
        extension: "csv",
        head: b"type,process,thread,",
    },
];

/// What a file is that begins so, or is called so.
pub(crate) fn title(path: &Path, head: &[u8]) -> Option<&'static str> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is = |kind: &&Kind| match kind.head {
        b"" => false,
        begin => head.starts_with(begin),
    };
    let ends = |kind: &&Kind| {
        let rest = name.strip_suffix(kind.extension);
        rest.is_some_and(|rest| rest.ends_with('.'))
    };
    let kind = KINDS.iter().find(is).or_else(|| KINDS.iter().find(ends))?;
    Some(kind.title)
}
