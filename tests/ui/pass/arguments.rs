//! Arguments and results in a crate without a prelude, whose constants have the names that an expansion might use.
#![forbid(unsafe_code)]
#![deny(warnings, unused)]
#![deny(clippy::all, clippy::pedantic)]
#![no_implicit_prelude]

use ::fdr::traced;
use ::std::boxed::Box;
use ::std::clone::Clone;
use ::std::convert::{From, Into};
use ::std::fmt::{Debug, Display};
use ::std::iter::{IntoIterator, Iterator};
use ::std::option::Option::{self, None};
use ::std::result::Result::{self, Err, Ok};
use ::std::string::String;
use ::std::vec::Vec;

const SITE: u32 = 3;
#[allow(non_upper_case_globals)]
const site: u32 = 4;
const RESULT: u8 = 5;

mod core {}

// A type without a value, a type parameter, patterns, and names that are words of the language.
struct Point {
    x: u32,
    y: u32,
}

#[traced(args)]
fn every_parameter<T: Clone>(
    Point { x, y: ref why }: Point,
    (a, mut b): (u8, i8),
    &c: &char,
    list: &[u32],
    generic: &T,
    r#in: usize,
    function: fn(u8) -> u8,
    pointer: *const str,
    _unused: u32,
    _: bool,
) -> u32 {
    b += 1;
    let _ = (list, generic, function, pointer, c, b);
    x + *why + u32::from(a) + if r#in == 0 { SITE } else { site }
}

#[traced(args(number, next = number + SITE, %shown, ?debugged, text = text.as_str(), all = ?(number, RESULT),), ret)]
fn chosen<'a>(number: u32, shown: &impl Display, debugged: impl Debug, text: &'a String) -> &'a str {
    let _ = (shown, debugged);
    if number == SITE {
        return "early";
    }
    text
}

#[traced(args, ret = ?)]
fn moves(mut list: Vec<String>, mut count: usize) -> Option<String> {
    while count > 0 {
        let _ = list.pop()?;
        count -= 1;
    }
    list.into_iter().next()
}

#[traced(err)]
fn boxed(number: u32) -> Result<u32, Box<dyn ::std::error::Error>> {
    let text = if number == 0 { "x" } else { "7" };
    let parsed: u32 = text.parse()?;
    Ok(parsed)
}

#[traced(ret, err = ?)]
fn coerces(number: u32) -> Result<u64, String> {
    match number {
        0 => Err(String::from("zero")),
        number => Ok(number.into()),
    }
}

#[traced(err)]
fn opaque(number: u32) -> Result<impl Iterator<Item = u32>, String> {
    if number == 0 {
        return Err(String::from("zero"));
    }
    Ok((0..number).map(move |more| more + number))
}

struct Owner {
    name: String,
    count: u32,
}

trait Named {
    #[traced(args, ret)]
    fn named(&self, times: usize) -> usize {
        self.name().len() * times
    }
    fn name(&self) -> &str;
}

impl Named for Owner {
    #[traced(ret)]
    fn name(&self) -> &str {
        &self.name
    }
}

impl Owner {
    #[traced(args(count = self.count, by), ret)]
    fn count(&mut self, by: u32) -> &mut u32 {
        self.count += by;
        &mut self.count
    }

    #[traced(args, ret)]
    fn into_name(self) -> String {
        self.name
    }

    #[traced(args(name = %self.name), ret, err)]
    async fn waits(mut self, more: u32) -> Result<u32, String> {
        ::std::future::ready(()).await;
        self.count += more;
        if more == 0 {
            return Err(self.name);
        }
        Ok(self.count)
    }

    #[traced(args, ret)]
    async fn does_not_wait(&self, more: u32) -> u32 {
        self.count + more
    }
}

#[traced(args(number), untimed, name = "a diverging function")]
fn diverges(number: u32) -> ! {
    ::std::process::exit(if number == 0 { 0 } else { 1 })
}

fn is_send<T: ::std::marker::Send>(value: T) {
    ::std::mem::drop(value);
}

fn main() {
    let text = String::from("text");
    let point = Point { x: 1, y: 2 };
    let _ = every_parameter(point, (1, 2), &'c', &[1], &text, 1, |byte| byte, &raw const *"x", 1, true);
    let _ = chosen(1, &1, None::<u8>, &text);
    let _ = moves(Vec::from([text.clone()]), 0);
    let _ = (boxed(0), coerces(0), opaque(1).map(Iterator::count));
    let mut owner = Owner { name: text, count: 1 };
    *owner.count(1) += owner_of().named(2) as u32;
    is_send(owner.does_not_wait(1));
    is_send(owner.waits(1));
    let _ = owner_of().into_name();
    diverges(0)
}

fn owner_of() -> Owner {
    Owner { name: String::from("name"), count: 1 }
}
