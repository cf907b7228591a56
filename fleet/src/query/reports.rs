//! The queries that come with the program: the files of `fleet/sql/`, which Spark runs too. A parameter stands in a
//! file as `:name`. A line `-- :name = value | what it is` at the head of the file gives its default.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

/// The views that a query sees, in the order in which they build on each other.
pub(crate) const VIEWS: [(&str, &str); 13] = [
    (
        "thread_ranges",
        include_str!("../../sql/views/thread_ranges.sql"),
    ),
    (
        "overlapping",
        include_str!("../../sql/views/overlapping.sql"),
    ),
    (
        "counted_traces",
        include_str!("../../sql/views/counted_traces.sql"),
    ),
    ("spans", include_str!("../../sql/views/spans.sql")),
    ("events", include_str!("../../sql/views/events.sql")),
    (
        "function_stats",
        include_str!("../../sql/views/function_stats.sql"),
    ),
    (
        "function_lengths",
        include_str!("../../sql/views/function_lengths.sql"),
    ),
    ("functions", include_str!("../../sql/views/functions.sql")),
    ("threads", include_str!("../../sql/views/threads.sql")),
    ("processes", include_str!("../../sql/views/processes.sql")),
    ("hosts", include_str!("../../sql/views/hosts.sql")),
    ("traces", include_str!("../../sql/views/traces.sql")),
    ("losses", include_str!("../../sql/views/losses.sql")),
];

/// The reports.
pub(crate) const REPORTS: [(&str, &str); 5] = [
    ("top", include_str!("../../sql/reports/top.sql")),
    ("slow", include_str!("../../sql/reports/slow.sql")),
    (
        "regressions",
        include_str!("../../sql/reports/regressions.sql"),
    ),
    ("hosts", include_str!("../../sql/reports/hosts.sql")),
    ("losses", include_str!("../../sql/reports/losses.sql")),
];

/// The parameters of a query, with their defaults.
fn parameters(sql: &str) -> Vec<(&str, &str)> {
    let lines = sql.lines().filter_map(|line| line.strip_prefix("-- :"));
    let split = lines.filter_map(|line| line.split('|').next()?.split_once('='));
    split
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect()
}

/// The query of a report, with these values: `name=value`.
///
/// # Errors
/// If a name is unknown, or a value is no number where one is expected.
pub(crate) fn query(report: &str, values: &[String]) -> anyhow::Result<String> {
    let found = REPORTS.iter().find(|(name, _)| *name == report);
    let names = REPORTS.map(|(name, _)| name).join(", ");
    let (_, sql) = found.with_context(|| format!("{report}: no such report: there are {names}"))?;
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    let known = parameters(sql);
    for (name, value) in &known {
        all.insert(name, (*value).to_owned());
    }
    for text in values {
        let (name, value) = text
            .split_once('=')
            .with_context(|| format!("--set {text}: not NAME=VALUE"))?;
        let Some((_, default)) = known.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            bail!(
                "--set {name}: {report} has no such parameter: it has {}",
                names.join(", ")
            );
        };
        let is_text = default.starts_with('\'');
        let literal = match is_text {
            true => format!("'{}'", value.replace('\\', "").replace('\'', "''")),
            false => value
                .parse::<i64>()
                .with_context(|| format!("--set {name}: not a number"))?
                .to_string(),
        };
        all.insert(name, literal);
    }
    Ok(fill(sql, &all))
}

/// Puts values in place of their names, outside of comments.
fn fill(sql: &str, values: &BTreeMap<&str, String>) -> String {
    let mut text = String::new();
    for line in sql
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
    {
        let mut parts = line.split(':');
        text += parts.next().unwrap_or_default();
        for part in parts {
            let end = part
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            match values.get(name) {
                Some(value) => text += value,
                None => text.extend([":", name]),
            }
            text += rest;
        }
        text.push('\n');
    }
    text
}

/// The reports and their parameters, for people.
pub(crate) fn list() -> String {
    let mut text = String::new();
    for (name, sql) in REPORTS {
        let what = sql
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("-- ");
        text += &format!("{name}: {what}\n");
        for line in sql.lines().filter_map(|line| line.strip_prefix("-- :")) {
            text += &format!("  --set {line}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_has_a_default_and_is_used() {
        for (name, sql) in REPORTS {
            let filled = query(name, &[]).unwrap();
            assert!(!filled.contains(':'), "{name}: {filled}");
            for (parameter, _) in parameters(sql) {
                assert!(
                    sql.matches(&format!(":{parameter}")).count() > 1,
                    "{name}: {parameter}"
                );
            }
        }
    }

    #[test]
    fn values_are_values() {
        let sql = query("top", &["program=a' OR 1=1 --\\'".to_owned()]).unwrap();
        assert!(sql.contains("'a'' OR 1=1 --'''"), "{sql}");
        for (values, what) in [
            ("limit=1; DROP", "not a number"),
            ("x=1", "no such parameter"),
            ("limit", "not NAME=VALUE"),
        ] {
            let error = query("top", &[values.to_owned()]).unwrap_err();
            assert!(format!("{error:#}").contains(what), "{error:#}");
        }
        assert!(
            query("bottom", &[])
                .unwrap_err()
                .to_string()
                .contains("top, slow")
        );
    }

    #[test]
    fn views_and_reports_are_listed_in_the_docs() {
        let page = include_str!("../../../docs/fleet.md");
        for (name, _) in REPORTS {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
