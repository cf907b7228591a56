//! The columns of functions and of threads, as text: the same cells for the screen and for a table that is printed.

use std::borrow::Cow;

use super::figures::{Picture, Row, ThreadRow};
use crate::ui;

/// A column.
pub(super) struct Column<T> {
    pub(super) head: &'static str,
    /// Room for its cells. 0: what is left, for text.
    pub(super) width: u16,
    /// The least width of a screen that shows it.
    pub(super) from: u16,
    pub(super) cell: fn(&T) -> String,
}

const CALLS_A_SECOND: Column<Row> = Column {
    head: "calls/s",
    width: 9,
    from: 0,
    cell: |row| rate(row.interval.calls_per_s),
};
const OWN: Column<Row> = Column {
    head: "self/s",
    width: 8,
    from: 0,
    cell: |row| time(per_second(row, row.interval.self_ns)),
};
const RUNNING: Column<Row> = Column {
    head: "running/s",
    width: 9,
    from: 0,
    cell: |row| time(row.interval.running_a_second()),
};
const WAITING: Column<Row> = Column {
    head: "waiting/s",
    width: 9,
    from: 0,
    cell: |row| time(row.interval.waiting_a_second()),
};
const TOTAL: Column<Row> = Column {
    head: "total/s",
    width: 8,
    from: 0,
    cell: |row| time(per_second(row, row.interval.total_ns)),
};
const P50: Column<Row> = Column {
    head: "p50",
    width: 8,
    from: 100,
    cell: |row| time(row.interval.p50_ns),
};
const P99: Column<Row> = Column {
    head: "p99",
    width: 8,
    from: 0,
    cell: |row| time(row.interval.p99_ns),
};
const MAX: Column<Row> = Column {
    head: "longest",
    width: 8,
    from: 120,
    cell: |row| time(row.longest_ns),
};
const CALLS: Column<Row> = Column {
    head: "calls",
    width: 13,
    from: 120,
    cell: |row| ui::count(row.calls),
};
const FUNCTION: Column<Row> = Column {
    head: "function",
    width: 0,
    from: 0,
    cell: |row| ui::clean(&row.name).into_owned(),
};

/// The columns of functions.
const FUNCTIONS: &[Column<Row>] = &[CALLS_A_SECOND, OWN, TOTAL, P50, P99, MAX, CALLS, FUNCTION];

/// The columns of functions if states are known.
const WITH_STATES: &[Column<Row>] = &[
    CALLS_A_SECOND,
    Column { from: 100, ..OWN },
    RUNNING,
    WAITING,
    Column { from: 100, ..TOTAL },
    Column { from: 120, ..P50 },
    P99,
    Column { from: 140, ..MAX },
    Column { from: 140, ..CALLS },
    FUNCTION,
];

/// The columns of functions for these figures.
pub(super) fn of_functions(picture: &Picture) -> &'static [Column<Row>] {
    match picture.states_over_ns {
        Some(_) => WITH_STATES,
        None => FUNCTIONS,
    }
}

/// The columns of threads.
pub(super) const THREADS: &[Column<ThreadRow>] = &[
    Column {
        head: "calls/s",
        width: 9,
        from: 0,
        cell: |row| rate(row.calls_per_s),
    },
    Column {
        head: "running",
        width: 7,
        from: 0,
        cell: |row| share(row, row.running_ns),
    },
    Column {
        head: "ready",
        width: 7,
        from: 0,
        cell: |row| share(row, row.ready_ns),
    },
    Column {
        head: "waiting",
        width: 7,
        from: 0,
        cell: |row| share(row, row.waiting_ns),
    },
    Column {
        head: "thread",
        width: 15,
        from: 0,
        cell: |row| ui::clean(&row.name).into_owned(),
    },
    Column {
        head: "id",
        width: 7,
        from: 100,
        cell: |row| row.id.to_string(),
    },
    Column {
        head: "since",
        width: 8,
        from: 100,
        cell: |row| time(row.open_ns),
    },
    Column {
        head: "in",
        width: 0,
        from: 0,
        cell: |row| match (&row.function, row.has_ended) {
            (_, true) => "(ended)".to_owned(),
            (Some(name), false) => ui::clean(name).into_owned(),
            (None, false) => "-".to_owned(),
        },
    },
];

/// Columns whose cells end below each other.
pub(super) fn is_right<T>(column: &Column<T>) -> bool {
    !matches!(column.head, "function" | "thread" | "in")
}

/// A text that fits, without its middle if it is longer.
pub(super) fn fit(text: &str, width: u16) -> Cow<'_, str> {
    ui::shorten(text, usize::from(width).max(1))
}

pub(super) fn name_of_thread(row: &ThreadRow) -> String {
    match row.name.as_str() {
        "" => row.id.to_string(),
        name => format!("{} ({})", ui::clean(name), row.id),
    }
}

/// `12`, `1.50`, `123,456`, `12.3 M`.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        ..9.995 => format!("{rate:.2}"),
        ..9_999_999.5 => ui::count(rate.round() as u64),
        ..9_999_500_000.0 => format!("{:.1} M", rate / 1e6),
        _ => format!("{:.1} G", rate / 1e9),
    }
}

fn time(ns: Option<u64>) -> String {
    match ns {
        Some(0) => "0".to_owned(),
        Some(ns) => ui::duration(ns),
        None => "-".to_owned(),
    }
}

/// A time in the interval, as a time in a second.
fn per_second(row: &Row, ns: Option<u64>) -> Option<u64> {
    ns.map(|ns| (ns as f64 * row.interval.per_second).round() as u64)
}

fn share(row: &ThreadRow, ns: Option<u64>) -> String {
    let all = [row.running_ns, row.ready_ns, row.waiting_ns];
    let all: u64 = all.into_iter().flatten().sum();
    match ns.filter(|_| all > 0) {
        Some(ns) => format!("{:.1} %", ns as f64 / all as f64 * 100.0),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits_at_least() {
        let texts = [
            0.0,
            0.5,
            9.99,
            10.2,
            1234.4,
            9_999_999.0,
            12_345_678.0,
            2.5e10,
        ]
        .map(rate);
        let wanted = [
            "0",
            "0.50",
            "9.99",
            "10",
            "1,234",
            "9,999,999",
            "12.3 M",
            "25.0 G",
        ];
        assert_eq!(texts, wanted);
    }

    #[test]
    fn shares_are_of_the_systems_time() {
        let row = ThreadRow {
            running_ns: Some(250),
            ready_ns: Some(0),
            waiting_ns: Some(750),
            ..ThreadRow::default()
        };
        assert_eq!(share(&row, row.running_ns), "25.0 %");
        assert_eq!(share(&ThreadRow::default(), None), "-");
    }
}
