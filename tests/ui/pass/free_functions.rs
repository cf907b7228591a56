//! Free functions: nested, recursive, with every way out and every shape of argument.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;
use std::num::ParseIntError;

#[traced]
fn nothing() {}

#[traced]
fn recursive(n: u64) -> u64 {
    if n < 2 { n } else { recursive(n - 1) + recursive(n - 2) }
}

#[traced]
fn even(n: u32) -> bool {
    n == 0 || odd(n - 1)
}

#[traced]
fn odd(n: u32) -> bool {
    n != 0 && even(n - 1)
}

#[traced]
fn nested(x: u32) -> u32 {
    #[traced]
    fn inner(x: u32) -> u32 {
        #[traced]
        fn innermost(x: u32) -> u32 {
            x + 1
        }
        innermost(x) * 2
    }
    inner(x)
}

#[traced]
fn question(text: &str) -> Result<u32, ParseIntError> {
    let sum = text.split(' ').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    Ok(sum.iter().sum())
}

#[traced]
fn question_of_option(list: &[u32]) -> Option<u32> {
    let first = list.first()?;
    let last = list.last()?;
    Some(first + last)
}

#[traced]
fn early(x: u32) -> &'static str {
    if x == 0 {
        return "zero";
    }
    match x {
        1 => return "one",
        2 => "two",
        _ => {
            return {
                let many = "many";
                many
            };
        }
    }
}

#[traced]
fn labels(limit: u32) -> u32 {
    let mut steps = 0;
    let found = 'outer: loop {
        for x in 0.. {
            steps += 1;
            if x == 3 {
                continue 'outer;
            }
            if steps > limit {
                break 'outer x;
            }
        }
    };
    let block = 'block: {
        if found == 0 {
            break 'block 1;
        }
        while steps > 0 {
            steps -= 1;
            if steps == 5 {
                break;
            }
        }
        2
    };
    found + block + steps
}

struct Point {
    x: u32,
    y: (u32, [u32; 2]),
}

#[traced]
fn destructured(
    Point { x, y: (y, [first, ..]) }: Point,
    (a, mut b): (u32, u32),
    &c: &u32,
    _: String,
    [d, e @ ..]: [u32; 3],
    ref f: u32,
) -> u32 {
    b += 1;
    x + y + first + a + b + c + d + e.len() as u32 + *f
}

#[traced]
fn tail_that_looks_like_an_operator(x: &u32) -> i64 {
    -i64::from(*x)
}

#[traced]
fn tail_in_parentheses(x: u32) -> (u32, u32) {
    (x, x)
}

#[traced]
fn closures() -> u32 {
    let add = |x: u32| -> u32 {
        if x == 0 {
            return 1;
        }
        x
    };
    add(0) + add(2)
}

fn main() {
    nothing();
    assert_eq!(recursive(10), 55);
    assert!(even(4) && odd(3));
    assert_eq!(nested(3), 8);
    assert_eq!(question("1 2 3"), Ok(6));
    assert!(question("1 x").is_err());
    assert_eq!(question_of_option(&[1, 2, 3]), Some(4));
    assert_eq!(question_of_option(&[]), None);
    assert_eq!([0, 1, 2, 3].map(early), ["zero", "one", "two", "many"]);
    assert_eq!(labels(9), 7 + 1);
    let point = Point { x: 1, y: (2, [3, 4]) };
    assert_eq!(destructured(point, (4, 5), &6, String::new(), [7, 0, 0], 8), 1 + 2 + 3 + 4 + 6 + 6 + 7 + 2 + 8);
    assert_eq!(tail_that_looks_like_an_operator(&3), -3);
    assert_eq!(tail_in_parentheses(1), (1, 1));
    assert_eq!(closures(), 3);
}
