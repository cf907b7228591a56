//! Methods of traits: implementations, defaults, associated functions, behind `dyn`, for foreign types.
#![forbid(unsafe_code)]
#![deny(warnings)]

use fdr::traced;
use std::fmt;
use std::ops::Add;

trait Shape {
    const SIDES: u32;
    type Unit: Default + PartialEq + fmt::Debug;

    fn area(&self) -> u32;

    #[traced]
    fn doubled(&self) -> u32 {
        self.area() * 2
    }

    #[traced]
    fn sides() -> u32
    where
        Self: Sized,
    {
        Self::SIDES
    }

    #[traced]
    fn unit(&self) -> Self::Unit {
        Self::Unit::default()
    }
}

struct Square(u32);

impl Shape for Square {
    const SIDES: u32 = 4;
    type Unit = u8;

    #[traced]
    fn area(&self) -> u32 {
        self.0 * self.0
    }
}

impl Shape for Vec<Square> {
    const SIDES: u32 = 0;
    type Unit = String;

    #[traced]
    fn area(&self) -> u32 {
        self.iter().map(Shape::area).sum()
    }

    #[traced]
    fn doubled(&self) -> u32 {
        self.iter().map(Square::doubled).sum()
    }
}

trait Tell {
    #[traced]
    fn tell(&self) -> String {
        String::from("nothing")
    }
}

impl Tell for u8 {}
impl<T: Tell> Tell for Option<T> {
    #[traced]
    fn tell(&self) -> String {
        self.as_ref().map_or_else(String::new, T::tell)
    }
}

impl Add for Square {
    type Output = Square;

    #[traced]
    fn add(self, other: Square) -> Square {
        Square(self.0 + other.0)
    }
}

impl fmt::Display for Square {
    #[traced]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Drop for Square {
    #[traced]
    fn drop(&mut self) {
        self.0 = 0;
    }
}

fn main() {
    let sum = Square(1) + Square(2);
    assert_eq!((sum.area(), sum.doubled(), Square::sides(), sum.unit()), (9, 18, 4, 0));
    assert_eq!(sum.to_string(), "3");
    let list = vec![sum];
    assert_eq!((list.area(), list.doubled(), list.unit()), (9, 18, String::new()));
    let tells: [Box<dyn Tell>; 2] = [Box::new(1), Box::new(Some(2))];
    assert_eq!(tells.map(|tell| tell.tell()), ["nothing", "nothing"]);
}
