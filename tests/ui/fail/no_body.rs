//! Functions without a body have no entry and no exit.
use fdr::traced;

trait Shape {
    #[traced]
    fn area(&self) -> u32;

    #[traced]
    async fn load(&self);
}

unsafe extern "C" {
    #[traced]
    safe fn abs(x: i32) -> i32;
}

fn main() {}
