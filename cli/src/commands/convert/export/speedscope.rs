//! The file format of speedscope.app: a profile of each thread, of calls that open and close, in nanoseconds since the
//! trace's start.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use fdr_formats::FunctionId;

use super::facts::{Facts, Lane};
use super::receiver::{Left, Receiver, Short};
use super::spool::Spool;
use super::value::json;
use super::{Export, Holds, Make, Out, target};

/// The format.
pub(super) const EXPORT: Export = Export {
    target: target("speedscope", "speedscope", "speedscope.json"),
    holds: Holds {
        places: true,
        ..Holds::NONE
    },
    make: Make::Calls(|out, facts| Ok(Box::new(Profiles::new(out, facts)))),
};

struct Profiles {
    out: Out,
    facts: Arc<Facts>,
    /// Frames as JSON, and where each function is among them. `None`: calls without records.
    frames: Vec<String>,
    by_id: HashMap<Option<FunctionId>, usize>,
    lanes: Vec<Profile>,
    spool: Spool,
}

/// The thread of a profile, and from when until when it has calls.
struct Profile {
    lane: Lane,
    times: Option<(u64, u64)>,
}

impl Profiles {
    fn new(out: Out, facts: &Arc<Facts>) -> Profiles {
        Profiles {
            out,
            facts: facts.clone(),
            frames: Vec::new(),
            by_id: HashMap::new(),
            lanes: Vec::new(),
            spool: Spool::default(),
        }
    }

    fn frame(&mut self, function: Option<FunctionId>) -> usize {
        if let Some(&known) = self.by_id.get(&function) {
            return known;
        }
        let name = function.map_or("[short]".to_owned(), |id| self.facts.name(id));
        let place = function.and_then(|id| self.facts.place(id));
        let place = place.map_or(String::new(), |(file, line)| match line {
            0 => format!(",\"file\":{}", json(file)),
            line => format!(",\"file\":{},\"line\":{line}", json(file)),
        });
        self.frames
            .push(format!("{{\"name\":{}{place}}}", json(&name)));
        self.by_id.insert(function, self.frames.len() - 1);
        self.frames.len() - 1
    }

    fn event(
        &mut self,
        lane: &Lane,
        kind: char,
        function: Option<FunctionId>,
        at: u64,
    ) -> io::Result<()> {
        let frame = self.frame(function);
        let Some(profile) = self.lanes.get_mut(lane.at) else {
            return Ok(());
        };
        let comma = if profile.times.is_some() { ",\n" } else { "" };
        let (first, _) = profile.times.unwrap_or((at, at));
        profile.times = Some((first, at));
        let text = format!("{comma}{{\"type\":\"{kind}\",\"frame\":{frame},\"at\":{at}}}");
        self.spool.add(lane.at, text.as_bytes())
    }
}

impl Receiver for Profiles {
    fn thread(&mut self, lane: &Lane) -> io::Result<()> {
        let lane = lane.clone();
        self.lanes.push(Profile { lane, times: None });
        Ok(())
    }

    fn entered(&mut self, lane: &Lane, function: FunctionId, at: u64) -> io::Result<()> {
        self.event(lane, 'O', Some(function), at)
    }

    fn left(&mut self, lane: &Lane, call: &Left<'_>) -> io::Result<()> {
        self.event(lane, 'C', Some(call.function), call.at)
    }

    fn short(&mut self, lane: &Lane, short: &Short) -> io::Result<()> {
        self.event(lane, 'O', None, short.from)?;
        self.event(lane, 'C', None, short.until)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        let Profiles {
            mut out,
            facts,
            frames,
            lanes,
            mut spool,
            ..
        } = *self;
        write!(
            out,
            "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"fdr\",\"name\":{},\n\
             \"shared\":{{\"frames\":[\n{}\n]}},\n\"profiles\":[",
            json(&facts.title()),
            frames.join(",\n")
        )?;
        let mut comma = "\n";
        // A profile without a call says nothing.
        for Profile { lane, times } in &lanes {
            let Some((first, last)) = times else { continue };
            writeln!(
                out,
                "{comma}{{\"type\":\"evented\",\"name\":{},\"unit\":\"nanoseconds\",\"startValue\":{first},\
                 \"endValue\":{last},\"events\":[",
                json(&lane.title())
            )?;
            spool.write(lane.at, &mut out)?;
            out.write_all(b"\n]}")?;
            comma = ",\n";
        }
        out.write_all(b"\n]}\n")?;
        out.flush()
    }
}
