//! What the records of a klass say, told from its name, its bases and its fields: HawkTracer's klasses
//! and what derives from its calls, and ours. Must never take a foreign klass for one of ours by chance:
//! those have names of their own.

use super::record::{ENDIANNESS, FIELD, KLASS};
use super::schema::{Kind, Layout};

/// Where the name of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// The klass is its name.
    None,
    /// This field is its identifier.
    Identifier(usize),
    /// This field is its label.
    Text(usize),
}

/// What the records of a klass say. Numbers are those of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Endianness,
    Klass,
    Field,
    Mapping {
        identifier: usize,
        label: usize,
    },
    /// Says nothing of the program.
    System,
    Call {
        duration: usize,
        thread: usize,
        label: Label,
        /// Only in our klass.
        flags: Option<usize>,
        arguments: Vec<usize>,
    },
    Trace,
    Thread,
    Function,
    Cpu,
    Wall,
    Lost,
    Custom,
    Typed,
    /// Of a klass that we do not know.
    Other,
}

/// What the records of this klass say. `is_call`: it is HawkTracer's base of calls, or derives from it.
pub(super) fn meaning(id: u32, layout: &Layout, is_call: bool) -> Meaning {
    match id {
        ENDIANNESS => return Meaning::Endianness,
        KLASS => return Meaning::Klass,
        FIELD => return Meaning::Field,
        _ => {}
    }
    let number = |name| layout.of_kind(name, |place| place.kind == Kind::Unsigned);
    let text = |name| layout.of_kind(name, |place| place.kind == Kind::Text);
    let of_call = || number("duration").zip(number("thread_id"));
    if let Some((duration, thread)) = is_call.then(of_call).flatten() {
        return call(layout, duration, thread);
    }
    match &*layout.name {
        "HT_StringMappingEvent" => match (number("identifier"), text("label")) {
            (Some(identifier), Some(label)) => Meaning::Mapping { identifier, label },
            _ => Meaning::Other,
        },
        "HT_SystemInfoEvent" => Meaning::System,
        "FDR_TraceEvent" => Meaning::Trace,
        "FDR_ThreadEvent" => Meaning::Thread,
        "FDR_FunctionEvent" => Meaning::Function,
        "FDR_CpuEvent" => Meaning::Cpu,
        "FDR_WallEvent" => Meaning::Wall,
        "FDR_LostEvent" => Meaning::Lost,
        "FDR_CustomEvent" => Meaning::Custom,
        "FDR_TypedEvent" => Meaning::Typed,
        _ => Meaning::Other,
    }
}

fn call(layout: &Layout, duration: usize, thread: usize) -> Meaning {
    let label = match layout.place("label").map(|at| (at, &layout.places[at])) {
        Some((at, place)) if place.kind == Kind::Text => Label::Text(at),
        Some((at, place)) if place.kind == Kind::Unsigned => Label::Identifier(at),
        _ => Label::None,
    };
    let flags = layout
        .place("flags")
        .filter(|_| layout.name.starts_with("FDR_FlaggedCallEvent"));
    let taken = |at: usize| {
        let is_label =
            matches!(label, Label::Text(label) | Label::Identifier(label) if label == at);
        at == duration || at == thread || flags == Some(at) || is_label
    };
    let numbers = layout.places.iter().enumerate();
    let arguments = numbers
        .filter(|&(at, place)| place.kind.is_number() && !taken(at))
        .map(|(at, _)| at);
    Meaning::Call {
        duration,
        thread,
        label,
        flags,
        arguments: arguments.collect(),
    }
}
