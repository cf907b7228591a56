//! What was found of a slow call.

use super::arguments::CallNotes;
use super::cause::{ConcurrentCall, Explanation};
use super::events::Events;
use super::samples::Samples;
use super::slow_call::SlowCall;
use super::states::CallStates;
use super::tree::Wait;
use super::usual::Usual;

/// A slow call, and the explanation that was found.
pub(crate) struct Finding {
    pub(crate) call: SlowCall,
    /// How many calls of the function are slow. `None`: the user chose the calls by options.
    pub(crate) slow_calls: Option<u64>,
    /// The calls that this one stands for. `None`: only for itself, by the user's wish.
    pub(crate) same_cause: Option<SameCause>,
    pub(crate) usual: Usual,
    pub(crate) explained: Explanation,
    pub(crate) meanwhile: Option<ConcurrentCall>,
    /// The longest wait inside, if it took a half of the call.
    pub(crate) wait: Option<Wait>,
    /// What the thread did, if the trace knows states.
    pub(crate) states: Option<CallStates>,
    /// Its arguments, and those of calls on its path.
    pub(crate) arguments: Vec<CallNotes>,
    /// Events inside.
    pub(crate) events: Events,
    /// Where the thread was while it ran, if the trace has such samples.
    pub(crate) samples: Option<Samples>,
}

/// The calls with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SameCause {
    pub(crate) calls: u64,
    /// There may be more: not all slow calls of these functions were compared.
    pub(crate) or_more: bool,
    /// The functions of these calls.
    pub(crate) functions: u64,
    /// The sum of their times, ticks.
    pub(crate) total: u64,
    /// Stretches of time in which such calls were open, one call or several at once.
    pub(crate) times: u64,
}
