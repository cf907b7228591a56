//! Where the boxes of a graph are, and the ways of its arrows. Each box has a layer below those that call it. A crate
//! puts the layers into an order with few crossings, and finds the places in them. Arrows that span several layers have
//! a place in each, and each arrow has one for its label. Must never hand a circle to the crate. So one arrow of each
//! recursion is turned round.

use std::collections::HashMap;

use rust_sugiyama::configure::{Config, RankingType};
use rust_sugiyama::from_vertices_and_edges;

/// Space between boxes beside each other.
const BESIDE: f64 = 18.0;
/// Space between layers.
const BELOW: f64 = 14.0;
/// The width that the way of an arrow takes in a layer.
const WAY: f64 = 8.0;
/// Space between parts of the graph that have nothing to do with each other.
const APART: f64 = 40.0;

/// Width and height.
pub(super) type Size = (f64, f64);

/// A graph with places.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Placed {
    /// The middle of each box.
    pub(super) boxes: Vec<(f64, f64)>,
    /// Of each arrow: the points between its boxes, in its direction.
    pub(super) ways: Vec<Vec<(f64, f64)>>,
    /// Of each arrow: the middle of its label.
    pub(super) labels: Vec<(f64, f64)>,
    pub(super) size: Size,
}

/// Finds the places. An arrow from a box to itself has no way.
pub(super) fn place(boxes: &[Size], arrows: &[(usize, usize)], labels: &[Size]) -> Placed {
    let downwards = downwards(boxes.len(), arrows);
    let layers = layers(boxes.len(), arrows, &downwards);
    // The places: boxes first, then those of arrows. Layers of boxes have even numbers.
    let mut sizes: Vec<Size> = boxes.to_vec();
    let mut layer_of: Vec<usize> = layers.iter().map(|layer| 2 * layer).collect();
    let mut steps: Vec<(u32, u32)> = Vec::new();
    let mut chains: Vec<Vec<usize>> = Vec::new();
    let mut label_places = Vec::new();
    for (nth, &(from, to)) in arrows.iter().enumerate() {
        if from == to {
            chains.push(Vec::new());
            label_places.push(from);
            continue;
        }
        let (top, bottom) = match downwards[nth] {
            true => (from, to),
            false => (to, from),
        };
        let (first, last) = (layer_of[top] + 1, layer_of[bottom]);
        // The label is in the middle of the way, in a layer without boxes.
        let middle = first + (last - first) / 4 * 2;
        let (mut chain, mut before) = (Vec::new(), top);
        for layer in first..last {
            let place = sizes.len();
            let is_label = layer == middle;
            sizes.push(match is_label {
                true => labels.get(nth).copied().unwrap_or((WAY, WAY)),
                false => (WAY, WAY),
            });
            if is_label {
                label_places.push(place);
            }
            layer_of.push(layer);
            steps.push((before as u32, place as u32));
            chain.push(place);
            before = place;
        }
        steps.push((before as u32, bottom as u32));
        if !downwards[nth] {
            chain.reverse();
        }
        chains.push(chain);
    }
    let (points, size) = arrange(&sizes, &layer_of, &steps);
    let at = |place: usize| points.get(place).copied().unwrap_or_default();
    Placed {
        boxes: (0..boxes.len()).map(at).collect(),
        ways: chains
            .iter()
            .map(|chain| chain.iter().map(|&place| at(place)).collect())
            .collect(),
        labels: label_places.into_iter().map(at).collect(),
        size,
    }
}

/// Which arrows go down. Those that close a circle go up.
fn downwards(boxes: usize, arrows: &[(usize, usize)]) -> Vec<bool> {
    let mut called: Vec<Vec<(usize, usize)>> = vec![Vec::new(); boxes];
    let mut has_caller = vec![false; boxes];
    for (nth, &(from, to)) in arrows.iter().enumerate() {
        if from != to {
            called[from].push((to, nth));
            has_caller[to] = true;
        }
    }
    let mut downwards = vec![true; arrows.len()];
    // 0: not seen, 1: on the way, 2: done.
    let mut seen = vec![0_u8; boxes];
    let roots = (0..boxes).filter(|&at| !has_caller[at]);
    for root in roots.chain(0..boxes) {
        if seen[root] != 0 {
            continue;
        }
        seen[root] = 1;
        let mut way = vec![(root, 0)];
        while let Some((at, next)) = way.last_mut() {
            let Some(&(to, nth)) = called[*at].get(*next) else {
                seen[*at] = 2;
                way.pop();
                continue;
            };
            *next += 1;
            match seen[to] {
                0 => {
                    seen[to] = 1;
                    way.push((to, 0));
                }
                1 => downwards[nth] = false,
                _ => {}
            }
        }
    }
    downwards
}

/// The layer of each box: one below the lowest of those above it.
fn layers(boxes: usize, arrows: &[(usize, usize)], downwards: &[bool]) -> Vec<usize> {
    let mut layers = vec![0; boxes];
    // At most as many rounds as there are layers.
    for _ in 0..boxes {
        let mut is_done = true;
        for (&(from, to), &is_down) in arrows.iter().zip(downwards) {
            let (top, bottom) = if is_down { (from, to) } else { (to, from) };
            if from != to && layers[bottom] <= layers[top] {
                layers[bottom] = layers[top] + 1;
                is_done = false;
            }
        }
        if is_done {
            break;
        }
    }
    layers
}

/// The point of each place.
fn arrange(sizes: &[Size], layer_of: &[usize], steps: &[(u32, u32)]) -> (Vec<(f64, f64)>, Size) {
    // Layers stand below each other, each as high as its highest box.
    let count = layer_of.iter().max().map_or(0, |last| last + 1);
    let mut heights = vec![0.0_f64; count];
    for (&(_, height), &layer) in sizes.iter().zip(layer_of) {
        heights[layer] = heights[layer].max(height);
    }
    let mut tops = Vec::with_capacity(count);
    let mut top = 0.0;
    for height in &heights {
        tops.push(top);
        top += height + BELOW;
    }
    let config = Config {
        vertex_spacing: BESIDE,
        dummy_vertices: true,
        ranking_type: RankingType::Up,
        ..Config::default()
    };
    let vertices: Vec<(u32, Size)> = (0..).zip(sizes.iter().copied()).collect();
    let mut lefts: HashMap<usize, f64> = HashMap::new();
    let mut right = 0.0_f64;
    for (places, _, _) in from_vertices_and_edges(&vertices, steps, &config) {
        // Of each part of the graph, the left edge is where the part before ends.
        let edge = |&(place, (x, _)): &(usize, (f64, f64))| x - sizes[place].0 / 2.0;
        let least = places.iter().map(edge).fold(f64::INFINITY, f64::min);
        let mut most = right;
        for (place, (x, _)) in &places {
            let middle = right + x - least;
            most = most.max(middle + sizes[*place].0 / 2.0);
            lefts.insert(*place, middle);
        }
        right = most + APART;
    }
    let point = |place: usize| {
        let layer = layer_of[place];
        let x = lefts.get(&place).copied().unwrap_or(0.0);
        (x, tops[layer] + heights[layer] / 2.0)
    };
    let points = (0..sizes.len()).map(point).collect();
    (points, ((right - APART).max(0.0), (top - BELOW).max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pieces::Random;

    const BOX: Size = (100.0, 40.0);

    fn boxes(placed: &Placed) -> Vec<(i64, i64)> {
        let whole = |&(x, y): &(f64, f64)| (x.round() as i64, y.round() as i64);
        placed.boxes.iter().map(whole).collect()
    }

    fn of(boxes: usize, arrows: &[(usize, usize)]) -> Placed {
        place(&vec![BOX; boxes], arrows, &vec![(50.0, 24.0); arrows.len()])
    }

    #[test]
    fn who_is_called_is_below() {
        let placed = of(4, &[(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]);
        let ys: Vec<i64> = boxes(&placed).iter().map(|(_, y)| *y).collect();
        assert!(
            ys[0] < ys[1] && ys[1] == ys[2] && ys[2] < ys[3],
            "{placed:?}"
        );
        // The arrow over the layer between has points in it.
        assert_eq!(placed.ways[4].len(), 3, "{placed:?}");
        assert_eq!(placed.ways[0].len(), 1, "{placed:?}");
    }

    #[test]
    fn a_circle_has_one_arrow_upwards() {
        let placed = of(3, &[(0, 1), (1, 2), (2, 0), (1, 1)]);
        let ys: Vec<i64> = boxes(&placed).iter().map(|(_, y)| *y).collect();
        assert!(ys[0] < ys[1] && ys[1] < ys[2], "{placed:?}");
        let up = &placed.ways[2];
        assert!(
            up.first().map(|point| point.1) > up.last().map(|point| point.1),
            "{up:?}"
        );
        assert!(placed.ways[3].is_empty());
        assert_eq!(of(0, &[]), Placed::default());
        assert_eq!(of(1, &[(0, 0)]).boxes, [(50.0, 20.0)]);
    }

    #[test]
    fn boxes_never_overlap_whatever_the_graph() {
        for seed in 0..150 {
            let mut random = Random::new(seed);
            let count = 1 + random.below(30) as usize;
            let mut arrows: Vec<(usize, usize)> = Vec::new();
            for _ in 0..random.below(60) {
                let any = |random: &mut Random| random.below(count as u64) as usize;
                let arrow = (any(&mut random), any(&mut random));
                if !arrows.contains(&arrow) {
                    arrows.push(arrow);
                }
            }
            let placed = of(count, &arrows);
            for one in 0..count {
                let (x, y) = placed.boxes[one];
                assert!(
                    x - 50.0 > -0.1 && x + 50.0 < placed.size.0 + 0.1,
                    "{seed}: {x} {:?}",
                    placed.size
                );
                for other in 0..one {
                    let (u, v) = placed.boxes[other];
                    let apart = (x - u).abs() >= 100.0 || (y - v).abs() >= 40.0;
                    assert!(apart, "{seed}: {one} {other} {placed:?}");
                }
            }
        }
    }
}
