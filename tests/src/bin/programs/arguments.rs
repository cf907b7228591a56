//! Calls with arguments and results of every type. Tests record it and look at the trace.
//!
//! ```text
//! arguments ROUNDS [kill | wait]
//! arguments bombs
//! ```
//! `bombs`: calls and events whose values panic when they are printed. Each round is a call of each kind. `kill`: the program kills itself inside of calls with arguments. `wait`: it says so
//! there, and waits until its input ends.
#![forbid(unsafe_code)]
#![deny(warnings)]

use std::fmt;
use std::hint::black_box;
use std::num::NonZero;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::path::Path;

use fdr::traced;
use fdr_tests::programs::futures::{Waits, finish};
use fdr_tests::programs::threads::{kill_process, wait_for_input};
use fdr_tests::support::facts;

/// A value that must not be evaluated unless its call is recorded.
fn evaluated() -> u32 {
    println!("evaluated");
    1
}

struct Secret;

/// Prints itself to a program only, and must not be asked.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "secret {}", evaluated())
    }
}

struct Key {
    id: u64,
    name: String,
}

#[traced(args)]
#[allow(clippy::too_many_arguments)]
fn scalars<T>(
    a: u8,
    b: i64,
    c: f32,
    d: bool,
    e: char,
    f: &u16,
    g: &mut i8,
    h: NonZero<u32>,
    i: *const [u8],
    (j, _): (u32, u32),
    text: &str,
    secret: &Secret,
    generic: T,
    _unused: u8,
    k: u128,
) -> u32 {
    *g += 1;
    black_box((text, secret, generic, i, k));
    u32::from(a)
        + b.unsigned_abs() as u32
        + c as u32
        + u32::from(d)
        + e as u32
        + u32::from(*f)
        + h.get()
        + j
}

impl Key {
    #[traced(args(id = self.id, of = self.name.as_str(), %shown, ?path, sum = more + 1, text = text), ret)]
    fn chosen(&self, shown: u32, path: &Path, more: u64, text: String) -> String {
        // By value, and moved by the body.
        let moved = text;
        black_box(path);
        format!("{}{shown}{more}{}", self.name, moved.len())
    }

    #[traced(args, ret)]
    fn into_name(self, mut more: u64) -> usize {
        more += 1;
        let name = self.name;
        name.len() + more as usize
    }
}

#[derive(Debug)]
struct Failure(u32);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failure {}", self.0)
    }
}

fn fails(number: u32) -> Result<u32, Failure> {
    match number % 2 {
        0 => Ok(number),
        _ => Err(Failure(number)),
    }
}

#[traced(err)]
fn question(number: u32) -> Result<u32, Failure> {
    let number = fails(number)?;
    Ok(number + 1)
}

#[traced(ret, err = ?)]
fn both(number: u32) -> Result<u32, Failure> {
    if number == 2 {
        return Ok(7);
    }
    question(number)
}

#[traced(ret = ?)]
fn debugged(number: u32) -> Option<u32> {
    number.checked_sub(1)
}

#[traced(ret = %, args)]
fn displayed(number: u32) -> Failure {
    Failure(number)
}

trait Shape {
    #[traced(args, ret)]
    fn area(&self, factor: f64) -> f64 {
        factor * 2.0
    }
    fn name(&self) -> &str;
}

impl Shape for Key {
    #[traced(ret)]
    fn name(&self) -> &str {
        &self.name
    }
}

#[traced(args, ret, untimed)]
fn untimed(number: u64) -> u64 {
    black_box(number)
}

#[traced(args, ret)]
fn short(number: u64) -> u64 {
    black_box(number)
}

#[traced]
fn plain(number: u64) -> u64 {
    short(number)
}

#[traced(args(number), ret)]
fn recurses(number: u64, deep: &mut dyn FnMut()) -> u64 {
    match number {
        0 => deep(),
        _ => {
            recurses(number - 1, deep);
        }
    }
    number
}

#[traced(args(number, text = text.as_str()), ret, err)]
async fn waits(number: u32, text: String) -> Result<usize, Failure> {
    Waits(1).await;
    fails(number)?;
    let moved = text;
    Ok(moved.len())
}

#[traced(args, ret)]
async fn does_not_wait(number: u32) -> u32 {
    number + 1
}

#[traced(args, err)]
fn opaque(number: u32) -> Result<impl Iterator<Item = u32>, Failure> {
    let number = fails(number)?;
    Ok((0..3).map(move |more| number + more))
}

#[traced(args, ret)]
fn unwinds(number: u32) -> u32 {
    if number == 3 {
        std::panic::resume_unwind(Box::new(()));
    }
    number
}

#[traced(args(text = "<b>\u{202e}\0\x1b[31m\n#", long = "ä".repeat(1000), empty = "", zero = 0), ret)]
fn hostile() -> &'static str {
    "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}"
}

#[traced(args(one = 1, value = evaluated(), debug = ?Secret), ret = ?)]
fn left_out() -> Secret {
    Secret
}

/// A value whose print panics.
struct Bomb;

impl fmt::Debug for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("so far")?;
        panic!("Debug panics")
    }
}

impl fmt::Display for Bomb {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Caught, as code that prints may do.
        let caught = catch_unwind(|| panic!("caught"));
        // A value inside of the value.
        fdr::event!("inside", bomb = ?Bomb);
        panic!("Display panics: {caught:?}")
    }
}

#[traced(args(before = 1, bomb = ?bomb, after = 2), ret = ?)]
fn explodes(bomb: &Bomb) -> &Bomb {
    println!("body");
    bomb
}

#[traced(args(%bomb), err)]
fn fails_and_explodes(bomb: Bomb) -> Result<(), Bomb> {
    Err(bomb)
}

/// Values whose print panics, under each way to set a hook. Prints which hooks ran, and the results.
fn panicking_values() {
    let values = || {
        explodes(&Bomb);
        black_box(fails_and_explodes(Bomb).is_err());
        fdr::event!("bombs", bomb = ?Bomb, other = %Bomb, last = 3);
    };
    let own = || println!("{}", catch_unwind(|| panic!("own")).is_err());
    values();
    set_hook(Box::new(|panic| println!("first hook: {panic}")));
    values();
    own();
    set_hook(Box::new(|panic| println!("second hook: {panic}")));
    values();
    own();
    // The standard hook again.
    drop(take_hook());
    values();
    // While a panic unwinds.
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            explodes(&Bomb);
        }
    }
    set_hook(Box::new(|panic| println!("third hook: {panic}")));
    let unwound = catch_unwind(|| {
        let _last = Last;
        panic!("unwinds");
    });
    println!("{}", unwound.is_err());
}

fn every_form() {
    let key = Key {
        id: 7,
        name: "key".to_owned(),
    };
    let four = NonZero::new(4).expect("not zero");
    scalars(
        1,
        -2,
        0.5,
        true,
        'x',
        &3,
        &mut 5,
        four,
        std::ptr::from_ref(&[0_u8; 2]),
        (6, 0),
        "text",
        &Secret,
        8_u8,
        9,
        u128::MAX,
    );
    key.chosen(1, Path::new("/a"), 2, "owned".to_owned());
    black_box((key.area(1.5), key.name()));
    key.into_name(4);
    black_box((both(1).is_err(), both(2).is_ok(), both(4).is_ok()));
    black_box((debugged(0), debugged(2), displayed(3).0));
    untimed(5);
    black_box(finish(waits(2, "abc".to_owned())).0.is_ok());
    black_box(finish(waits(3, String::new())).0.is_ok());
    finish(does_not_wait(1));
    black_box(opaque(1).map(Iterator::count).is_err());
    black_box(opaque(2).map(Iterator::count).is_ok());
    unwinds(1);
    assert!(catch_unwind(|| unwinds(3)).is_err());
    hostile();
    black_box(left_out());
}

pub(crate) fn main(words: &[&str]) {
    if words == ["bombs"] {
        return panicking_values();
    }
    let rounds = words.first().and_then(|word| word.parse().ok());
    every_form();
    black_box((0..rounds.unwrap_or(1)).map(plain).sum::<u64>());
    // More arguments of open calls than the ring has a place for.
    recurses(150, &mut || ());
    print!("{}", facts::of_statistics(&fdr::statistics()));
    recurses(2, &mut || match words.get(1) {
        Some(&"kill") => kill_process(),
        Some(&"wait") => wait_for_input("waits"),
        _ => (),
    });
}
