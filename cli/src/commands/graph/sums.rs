//! Sums up paths of calls by function, and by caller and called function.

use std::collections::HashMap;

use fdr_formats::filter::Filter;

use crate::tree::folding::Row;

/// Which part of the paths counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    All,
    /// Calls of these functions, and the calls inside them.
    From(&'a Filter),
    /// The callers that lead to calls of these functions.
    To(&'a Filter),
}

/// A function. Times are ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) calls: u64,
    pub(super) total: u64,
    pub(super) own: u64,
}

/// A function that another one called.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) calls: u64,
    pub(super) total: u64,
}

/// Which function calls which; those with the most time come first.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    /// All time.
    pub(super) all: u64,
    /// Functions and edges that were left out.
    pub(super) hidden: [usize; 2],
}

/// The graph while it is made.
struct Making<'a> {
    rows: &'a [Row],
    /// The total time of each path, with all paths below it.
    totals: Vec<u64>,
    /// The function of each path. `None`: it is none.
    functions: Vec<Option<usize>>,
    graph: Graph,
    edges: HashMap<(usize, usize), usize>,
}

impl Graph {
    /// Of the paths of a trace, callers first.
    pub(super) fn new(mut rows: Vec<Row>, part: Part<'_>) -> Graph {
        // What was open at the end is a call of its function.
        for at in (0..rows.len()).rev() {
            if rows[at].is_open {
                let (caller, own, calls) = (rows[at].caller, rows[at].own, rows[at].calls);
                rows[caller].own = rows[caller].own.saturating_add(own);
                rows[caller].calls = rows[caller].calls.saturating_add(calls);
                (rows[at].own, rows[at].calls) = (0, 0);
            }
        }
        let mut making = Making::new(&rows);
        match part {
            Part::All => making.inside(None),
            Part::From(filter) => making.inside(Some(filter)),
            Part::To(filter) => making.leading_to(filter),
        }
        let mut graph = making.graph;
        graph.keep(|node| node.calls > 0 || node.total > 0, |_| true);
        graph.hidden = [0, 0];
        graph
    }

    /// Drops functions and edges with less than the share `least` of all time, and all functions
    /// beyond the first `most`.
    pub(super) fn cut(&mut self, least: f64, most: usize) {
        let least = (least * self.all as f64).ceil() as u64;
        let mut totals: Vec<u64> = self.nodes.iter().map(|node| node.total).collect();
        totals.sort_unstable_by(|left, right| right.cmp(left));
        let last = totals.get(most).map_or(0, |total| total.saturating_add(1));
        let from = least.max(last);
        self.keep(|node| node.total >= from, |edge| edge.total >= least);
    }

    /// Keeps some functions, and the edges between them that are to be kept.
    fn keep(&mut self, keeps: impl Fn(&Node) -> bool, keeps_edge: impl Fn(&Edge) -> bool) {
        let mut order: Vec<usize> = (0..self.nodes.len())
            .filter(|&at| keeps(&self.nodes[at]))
            .collect();
        order.sort_by(|&left, &right| {
            let (left, right) = (&self.nodes[left], &self.nodes[right]);
            right
                .total
                .cmp(&left.total)
                .then_with(|| left.name.cmp(&right.name))
        });
        let mut places = vec![None; self.nodes.len()];
        for (place, &at) in order.iter().enumerate() {
            places[at] = Some(place);
        }
        let before = [self.nodes.len(), self.edges.len()];
        self.nodes = order
            .iter()
            .map(|&at| std::mem::take(&mut self.nodes[at]))
            .collect();
        self.edges.retain_mut(|edge| {
            let (Some(from), Some(to)) = (places[edge.from], places[edge.to]) else {
                return false;
            };
            (edge.from, edge.to) = (from, to);
            keeps_edge(edge)
        });
        self.edges
            .sort_by_key(|edge| (std::cmp::Reverse(edge.total), edge.from, edge.to));
        self.hidden[0] += before[0] - self.nodes.len();
        self.hidden[1] += before[1] - self.edges.len();
    }
}

impl<'a> Making<'a> {
    fn new(rows: &'a [Row]) -> Making<'a> {
        let mut totals: Vec<u64> = rows.iter().map(|row| row.own).collect();
        for at in (1..rows.len()).rev() {
            let caller = rows[at].caller;
            totals[caller] = totals[caller].saturating_add(totals[at]);
        }
        let mut making = Making {
            rows,
            totals,
            functions: Vec::with_capacity(rows.len()),
            graph: Graph::default(),
            edges: HashMap::new(),
        };
        let mut places: HashMap<&str, usize> = HashMap::new();
        for row in rows {
            let function = row.is_function.then(|| {
                let nodes = &mut making.graph.nodes;
                *places.entry(&row.name).or_insert_with(|| {
                    nodes.push(Node {
                        name: row.name.clone(),
                        ..Node::default()
                    });
                    nodes.len() - 1
                })
            });
            making.functions.push(function);
        }
        making
    }

    /// The callers of a path, from the nearest on.
    fn around(&self, path: usize) -> impl Iterator<Item = usize> + '_ {
        let next = |&at: &usize| (at != 0).then(|| self.rows[at].caller);
        std::iter::successors(next(&path), next)
    }

    fn edge(&mut self, from: usize, to: usize) -> &mut Edge {
        let edges = &mut self.graph.edges;
        let place = *self.edges.entry((from, to)).or_insert_with(|| {
            edges.push(Edge {
                from,
                to,
                ..Edge::default()
            });
            edges.len() - 1
        });
        &mut self.graph.edges[place]
    }

    /// All paths, or what they have inside of calls of some functions.
    fn inside(&mut self, of: Option<&Filter>) {
        let mut is_inside = vec![false; self.rows.len()];
        for path in 0..self.rows.len() {
            let Some(function) = self.functions[path] else {
                continue;
            };
            let row = &self.rows[path];
            let is_around = path != 0 && is_inside[row.caller];
            is_inside[path] = is_around || of.is_none_or(|of| of.matches(&row.name));
            if !is_inside[path] {
                continue;
            }
            let caller = is_around.then(|| self.functions[row.caller]).flatten();
            let total = self.totals[path];
            if !is_around {
                self.graph.all = self.graph.all.saturating_add(total);
            }
            // The total time of a call inside another call of the same function, or of the same pair, is not added
            // again.
            let (mut again, mut again_pair) = (false, false);
            let mut inner = function;
            for (nth, outer) in self
                .around(path)
                .take_while(|at| is_inside[*at])
                .enumerate()
            {
                let Some(outer) = self.functions[outer] else {
                    break;
                };
                again |= outer == function;
                again_pair |= nth > 0 && Some(outer) == caller && inner == function;
                inner = outer;
            }
            let node = &mut self.graph.nodes[function];
            node.calls = node.calls.saturating_add(row.calls);
            node.own = node.own.saturating_add(row.own);
            if !again {
                node.total = node.total.saturating_add(total);
            }
            if let Some(caller) = caller {
                let edge = self.edge(caller, function);
                edge.calls = edge.calls.saturating_add(row.calls);
                if !again_pair {
                    edge.total = edge.total.saturating_add(total);
                }
            }
        }
    }

    /// How paths lead to some functions: each time is that of these functions.
    fn leading_to(&mut self, of: &Filter) {
        for path in 0..self.rows.len() {
            let row = &self.rows[path];
            let Some(function) = self.functions[path].filter(|_| of.matches(&row.name)) else {
                continue;
            };
            let is_again =
                |at: usize| self.functions[at].is_some() && of.matches(&self.rows[at].name);
            if self.around(path).any(is_again) {
                continue;
            }
            let (total, calls) = (self.totals[path], row.calls);
            self.graph.all = self.graph.all.saturating_add(total);
            let node = &mut self.graph.nodes[function];
            node.own = node.own.saturating_add(row.own);
            let way = std::iter::once(path).chain(self.around(path));
            let way: Vec<usize> = way.map_while(|at| self.functions[at]).collect();
            for (nth, &at) in way.iter().enumerate() {
                // Once for each function on the way, and for each pair.
                if !way[..nth].contains(&at) {
                    let node = &mut self.graph.nodes[at];
                    node.total = node.total.saturating_add(total);
                    node.calls = node.calls.saturating_add(calls);
                }
            }
            for (nth, pair) in way.windows(2).enumerate() {
                if way.windows(2).take(nth).all(|before| before != pair) {
                    let edge = self.edge(pair[1], pair[0]);
                    edge.total = edge.total.saturating_add(total);
                    edge.calls = edge.calls.saturating_add(calls);
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Paths of names, with their own time and their calls. 0 is the root.
    pub(in super::super) fn rows(paths: &[(usize, &str, u64, u64)]) -> Vec<Row> {
        let root = (0, "", 0, 0);
        let row = |&(caller, name, own, calls): &(usize, &str, u64, u64)| Row {
            caller,
            name: name.to_owned(),
            is_function: !name.is_empty() && !name.starts_with('['),
            is_open: name == "[open]",
            own,
            calls,
        };
        std::iter::once(&root).chain(paths).map(row).collect()
    }

    /// Name, calls, total and self time; from, to, calls and time.
    type Sums<'a> = (
        Vec<(&'a str, u64, u64, u64)>,
        Vec<(&'a str, &'a str, u64, u64)>,
    );

    fn sums(graph: &Graph) -> Sums<'_> {
        let name = |at: usize| graph.nodes[at].name.as_str();
        let node = |node: &'_ Node| (node.calls, node.total, node.own);
        let nodes = graph.nodes.iter().enumerate().map(|(at, one)| {
            let (calls, total, own) = node(one);
            (name(at), calls, total, own)
        });
        let edges = graph
            .edges
            .iter()
            .map(|edge| (name(edge.from), name(edge.to), edge.calls, edge.total));
        (nodes.collect(), edges.collect())
    }

    fn example() -> Vec<Row> {
        rows(&[
            (0, "main", 10, 1),
            (1, "read", 20, 2),
            (1, "parse", 5, 1),
            (3, "parse", 30, 4),
            (4, "read", 40, 8),
            (0, "read", 7, 1),
            (1, "[open]", 3, 1),
            (2, "[short]", 6, 9),
        ])
    }

    #[test]
    fn a_recursion_counts_its_time_once() {
        let graph = Graph::new(example(), Part::All);
        let (nodes, edges) = sums(&graph);
        assert_eq!(
            nodes,
            [
                ("main", 2, 114, 13),
                ("parse", 5, 75, 35),
                ("read", 11, 73, 67)
            ]
        );
        assert_eq!(
            edges,
            [
                ("main", "parse", 1, 75),
                ("parse", "parse", 4, 70),
                ("parse", "read", 8, 40),
                ("main", "read", 2, 26),
            ]
        );
        assert_eq!(graph.all, 121);
    }

    #[test]
    fn from_shows_callees_and_to_shows_callers() {
        let filter = |text| Filter::parse(text).expect("globs");
        let (parse, read) = (filter("parse"), filter("read"));
        let graph = Graph::new(example(), Part::From(&parse));
        let (nodes, edges) = sums(&graph);
        assert_eq!(nodes, [("parse", 5, 75, 35), ("read", 8, 40, 40)]);
        assert_eq!(edges, [("parse", "parse", 4, 70), ("parse", "read", 8, 40)]);
        let graph = Graph::new(example(), Part::To(&read));
        let (nodes, edges) = sums(&graph);
        // 26 ns in two calls from main, 40 ns in eight calls from parse, 7 ns in one call without a caller.
        assert_eq!(
            nodes,
            [
                ("read", 11, 73, 67),
                ("main", 10, 66, 0),
                ("parse", 8, 40, 0)
            ]
        );
        assert_eq!(
            edges,
            [
                ("main", "parse", 8, 40),
                ("parse", "read", 8, 40),
                ("parse", "parse", 8, 40),
                ("main", "read", 2, 26),
            ]
        );
    }

    #[test]
    fn what_is_small_is_cut_and_counted() {
        let mut graph = Graph::new(example(), Part::All);
        graph.cut(0.5, 10);
        let (nodes, edges) = sums(&graph);
        assert_eq!(
            nodes.iter().map(|node| node.0).collect::<Vec<_>>(),
            ["main", "parse", "read"]
        );
        assert_eq!(edges.len(), 2);
        assert_eq!(graph.hidden, [0, 2]);
        graph.cut(0.0, 1);
        assert_eq!((graph.nodes.len(), graph.edges.len()), (1, 0));
        assert_eq!(graph.hidden, [2, 4]);
    }
}
