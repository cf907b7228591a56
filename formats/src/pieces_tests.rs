//! Pieces of a lane that is not stored: their order, and the effect of an error on the pieces that wait for
//! it.

use std::ops::ControlFlow;

use super::*;
use crate::model::TraceInfo;
use crate::source::Record;

/// One lane of ten blocks, each of which has its number as its only event.
struct Numbers {
    info: TraceInfo,
    broken: Option<usize>,
}

const BLOCKS: usize = 10;

fn place(block: usize) -> Position {
    Position {
        block,
        free: true,
        ..Position::default()
    }
}

impl Source for Numbers {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &[]
    }

    fn lanes(&self) -> usize {
        1
    }

    fn lane_bytes(&self, _: usize) -> u64 {
        BLOCKS as u64
    }

    fn decode(&self, _: usize, _: &mut dyn Sink, _: &(dyn Fn(u64) + Sync)) -> Result<(), Error> {
        Err(Error::format(0, "the lane is to be divided"))
    }

    fn cuts(&self, _: usize, bytes: u64) -> Result<Vec<Position>, Error> {
        Ok((1..BLOCKS).step_by(bytes as usize).map(place).collect())
    }

    fn decode_part(
        &self,
        part: &Part,
        sink: &mut dyn Sink,
        _: &mut Complaints,
        _: &(dyn Fn(u64) + Sync),
    ) -> Result<Position, Error> {
        let end = part.to.map_or(BLOCKS, |to| to.block);
        for block in part.from.block..end {
            if self.broken == Some(block) {
                return Err(Error::format(7, "a block can't be read"));
            }
            let value = block as u64;
            sink.mark(&Mark::Argument { value });
        }
        Ok(place(end))
    }

    fn records(&self, _: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Default)]
struct Seen(Vec<u64>);

impl Sink for Seen {
    fn thread(&mut self, _: &Thread) {}
    fn calls(&mut self, _: &[Call]) {}
    fn mark(&mut self, mark: &Mark<'_>) {
        if let Mark::Argument { value } = mark {
            self.0.push(*value);
        }
    }
    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Join for Seen {
    fn join(&mut self, mut piece: Seen) -> bool {
        // Some can't be told without what came before.
        let clear = piece.0.iter().all(|value| value % 3 != 0);
        if clear {
            self.0.append(&mut piece.0);
        }
        clear
    }
}

fn seen(broken: Option<usize>, jobs: usize) -> Result<Vec<u64>, Error> {
    let info = TraceInfo::default();
    let source = Numbers { info, broken };
    let division = Division { jobs, piece: 1 };
    let sinks = drive_pieces(&source, division, |_| Seen::default(), &|_| {})?;
    Ok(sinks.into_iter().flat_map(|seen| seen.0).collect())
}

#[test]
fn pieces_are_joined_in_order_and_each_once() {
    for jobs in 2..6 {
        let all: Vec<u64> = (0..BLOCKS as u64).collect();
        assert_eq!(seen(None, jobs).expect("readable"), all);
    }
}

#[test]
fn an_error_in_a_piece_ends_all() {
    for (broken, jobs) in (0..BLOCKS).flat_map(|broken| [(broken, 2), (broken, 5)]) {
        let error = seen(Some(broken), jobs).expect_err("a block is broken");
        assert!(error.to_string().contains("can't be read"), "{error}");
    }
}
