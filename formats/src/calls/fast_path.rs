//! The fast path of a call stack, for many calls at once. Nearly all of them nest. No processor can foresee whether an
//! entry or an exit comes next. So both get the same instructions, and no branch; values that do not apply are zeros.
//! All other calls go to the stack's own methods.

use super::{CallHandler, CallStack, OpenCall, state};
use crate::model::{Call, Edge, FunctionId, Ticks};
use crate::packed::Packed;

/// The most calls that are taken at once; a power of two.
pub const ROOM: usize = 256;
/// Room for the deepest stack after a full batch, and for the place below the outermost call.
const WINDOW: usize = 2 * ROOM;

/// A user of the fast path. [`CallHandler`] gets all other calls.
pub trait FastPath<T>: CallHandler<T> {
    /// The data of the caller if no call is open.
    fn root(&self) -> T;

    /// An entry or an exit. Returns the data of the call that is entered; for an exit, any value.
    /// `None`: nothing has changed, and the slow path must take the edge.
    fn step(&mut self, plain: OrdinaryEdge<T>) -> Option<T>;

    /// A number of steps were taken, with this many exits among them.
    fn stepped(&mut self, ended: usize) {
        let _ = ended;
    }

    /// The slow path: the data of a call that is entered inside the `open` ones.
    fn entered(&mut self, function: FunctionId, open: &[OpenCall<T>]) -> T;
}

/// An entry, or the exit of the innermost call. Such a call is not clipped, and lasts at least as long
/// as the calls that it made.
#[derive(Clone, Copy, Debug)]
pub struct OrdinaryEdge<T> {
    /// Which function.
    pub function: FunctionId,
    /// All ones for an exit, else 0.
    pub exit: u64,
    /// The data of the innermost open call: the one that an exit ends.
    pub innermost: T,
    /// For an exit: ticks since the entry. For an entry, any value.
    pub total: u64,
    /// Ticks in calls that the innermost open call has made.
    pub children: u64,
    /// Exits since [`FastPath::stepped`].
    pub ended: usize,
}

/// Room for the innermost open calls, from the second place on. One room serves any number of stacks,
/// one after the other.
#[derive(Debug)]
pub struct Window<T>(Box<[OpenCall<T>; WINDOW]>);

impl<T: Copy + Default> Default for Window<T> {
    fn default() -> Self {
        let none = OpenCall {
            start: Ticks(0),
            before: 0,
            function: FunctionId(0),
            state: state::NO_CALL,
            data: T::default(),
        };
        Window(Box::new([none; WINDOW]))
    }
}

/// The effect of an edge on a stack.
#[derive(Clone, Copy)]
struct Step {
    /// Ticks since the previous edge.
    ticks: u64,
    function: FunctionId,
    /// All ones for an exit, else zero.
    exit: u64,
}

/// How far some steps were followed.
struct StepRun {
    /// Steps.
    count: usize,
    /// The steps among them that ended a call.
    ended: usize,
}

impl<T: Copy + Default> CallStack<T> {
    /// Takes some calls, in order.
    pub fn run<U: FastPath<T>>(&mut self, window: &mut Window<T>, user: &mut U, calls: &[Call]) {
        if let Some(first) = calls.first() {
            self.begin(first.time);
        }
        // A move of the window is not worth it for too few calls.
        if calls.len() < 4 + self.open.len().min(ROOM) / 16 {
            return calls.iter().for_each(|call| self.one(user, call));
        }
        for mut calls in calls.chunks(ROOM) {
            let first = calls.first().map_or(self.before, |call| call.time);
            if first < self.earliest() || !calls.is_sorted_by_key(|call| call.time) {
                self.go_back();
                let times = calls.iter().map(|call| call.time);
                self.latest = times.fold(self.latest, Ticks::max);
            }
            while !calls.is_empty() {
                let from = self.before.0;
                let mut before = from;
                // Synthetic edges take the slow path.
                let plain = calls.iter().take_while(|call| !call.synthetic);
                let steps = plain.map(move |call| {
                    let ticks = call.time.0.wrapping_sub(before);
                    before = call.time.0;
                    Step {
                        ticks,
                        function: call.function,
                        exit: u64::from(call.edge != Edge::Entry).wrapping_neg(),
                    }
                });
                let count = self.plain(window, user, from, steps);
                calls = calls.get(count..).unwrap_or(&[]);
                if let Some((call, rest)) = calls.split_first() {
                    self.one(user, call);
                    calls = rest;
                }
            }
        }
    }

    /// As `run`, for packed calls.
    pub fn run_packed<U: FastPath<T>>(
        &mut self,
        window: &mut Window<T>,
        user: &mut U,
        packed: &Packed<'_>,
    ) {
        let Some(first) = packed.first() else {
            return;
        };
        self.begin(first);
        if first < self.earliest() {
            self.go_back();
        }
        let is_plain = !packed.has_odd_edges();
        let (mut done, mut time) = (0, packed.base.0);
        while done < packed.len() {
            let part = packed.part(done, ROOM);
            let count = if is_plain {
                let steps = part.calls().map(|call| Step {
                    ticks: call.delta(),
                    function: call.function(),
                    exit: call.plainly_left(),
                });
                self.plain(window, user, time, steps)
            } else {
                let steps = part.calls().map(|call| Step {
                    ticks: call.delta(),
                    function: call.function(),
                    exit: call.left(),
                });
                self.plain(window, user, time, steps)
            };
            if count > 0 {
                time = self.before.0;
            }
            done += count;
            if let Some(call) = part.get(count) {
                time = time.wrapping_add(call.delta());
                self.one(user, &call.at(Ticks(time)));
                done += 1;
            }
        }
    }

    /// Calls come, from that time on.
    fn begin(&mut self, first: Ticks) {
        if self.number == 0 {
            self.first = first;
        }
    }

    /// The slow path.
    #[inline(never)]
    fn one<U: FastPath<T>>(&mut self, user: &mut U, call: &Call) {
        if call.edge == Edge::Entry {
            let data = user.entered(call.function, &self.open);
            self.enter(call, data);
        } else {
            self.exit(call, user);
        }
    }

    /// Takes at most [`ROOM`] steps as long as they are ordinary. The first is counted from `base`.
    /// Returns the number of steps taken.
    #[inline(always)]
    fn plain<U: FastPath<T>>(
        &mut self,
        window: &mut Window<T>,
        user: &mut U,
        time: u64,
        steps: impl Iterator<Item = Step>,
    ) -> usize {
        let untimed = self.untimed.clone();
        let followed = match untimed.near() {
            // No sum exceeds the time that has passed, because no time went back, and short calls had the time that
            // they took.
            _ if self.went_back => return 0,
            None => return 0,
            Some([]) => self.follow::<false, U>(window, user, time, steps, &[]),
            Some(untimed) => self.follow::<true, U>(window, user, time, steps, untimed),
        };
        self.rule.entered(followed.count - followed.ended);
        user.stepped(followed.ended);
        followed.count
    }

    /// Copies the open calls from `base` on into the window. Returns the place behind the innermost one.
    #[inline(always)]
    fn fill_window<U: FastPath<T>>(
        &mut self,
        window: &mut [OpenCall<T>; WINDOW],
        base: usize,
        user: &mut U,
    ) -> usize {
        // The stack was higher in between, so it has the room.
        self.open.reserve(ROOM);
        let near = self.open.get(base..).unwrap_or(&[]);
        let first = 1 + near.len();
        if let Some(window) = window.get_mut(1..first) {
            window.copy_from_slice(near);
        }
        window[0].data = match base.checked_sub(1).and_then(|below| self.open.get(below)) {
            Some(below) => below.data,
            None => user.root(),
        };
        first
    }

    /// Takes those steps as long as they are ordinary: entries, and exits of an innermost call that is
    /// not clipped. `UNTIMED`: some functions have no times.
    #[inline(never)]
    fn follow<const UNTIMED: bool, U: FastPath<T>>(
        &mut self,
        window: &mut Window<T>,
        user: &mut U,
        mut time: u64,
        steps: impl Iterator<Item = Step>,
        untimed: &[i8],
    ) -> StepRun {
        // The steps can reach no place outside of the window, up or down. So an index under a mask needs
        // no test.
        let base = self.open.len().saturating_sub(ROOM - 1);
        let window = &mut *window.0;
        let first = self.fill_window(window, base, user);
        let (mut above, mut children, mut ended) = (first, self.children, 0_usize);
        for Step {
            ticks,
            function,
            exit,
        } in steps
        {
            time = time.wrapping_add(ticks);
            let innermost = window[above.wrapping_sub(1) % WINDOW].data;
            // The next call, or the innermost one.
            let frame = &mut window[above.wrapping_add(exit as usize) % WINDOW];
            // An entry has no use for this value.
            let mut total = time.wrapping_sub(frame.start.0);
            if UNTIMED {
                let untimed = untimed.get(function.0 as usize).copied().unwrap_or(0);
                let untimed = i64::from(untimed) as u64;
                total = total & !untimed | children & untimed;
            }
            let plain = OrdinaryEdge {
                function,
                exit,
                innermost,
                total,
                children,
                ended,
            };
            let differs = frame.function.0 ^ function.0 | frame.state;
            let fits = differs & exit as u32 == 0;
            let Some(data) = fits.then(|| user.step(plain)).flatten() else {
                time = time.wrapping_sub(ticks);
                break;
            };
            let before = children;
            children = frame.before.wrapping_add(total) & exit;
            // After an exit, this place is above the innermost call and has no meaning.
            *frame = OpenCall {
                start: Ticks(time),
                before,
                function,
                state: 0,
                data,
            };
            ended = ended.wrapping_sub(exit as usize);
            // One up, or one down.
            above = above.wrapping_add((exit | 1) as usize);
        }
        // The number of exits follows from the number of steps and the growth of the stack.
        let count = above.wrapping_sub(first).wrapping_add(2 * ended);
        self.open.truncate(base);
        let open = window.get(1..above).unwrap_or(&[]);
        self.open.extend_from_slice(open);
        self.children = children;
        if count > 0 {
            self.number += count as u64;
            self.before = Ticks(time);
        }
        StepRun { count, ended }
    }
}
