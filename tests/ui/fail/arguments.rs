//! Arguments and results that can't be recorded, and options that say nothing.
use fdr::traced;

struct Secret;

#[traced(args)]
impl Secret {
    fn shown(&self, word: u32) {}
}

#[traced(ret)]
mod results {}

#[traced(err)]
trait Fails {}

#[traced(args())]
fn no_names() {}

#[traced(args(self))]
fn the_receiver() {}

#[traced(args(1 + 2))]
fn no_name() {}

#[traced(args = 3)]
fn a_value() {}

#[traced(args, args(x))]
fn twice(x: u32) {}

#[traced(ret = 3)]
fn another_way() -> u32 {
    1
}

#[traced(ret)]
fn no_result() {}

#[traced(err)]
fn never() -> ! {
    loop {}
}

#[traced(args(secret))]
fn no_value(secret: &Secret) {}

#[traced(ret)]
fn no_value_either() -> Secret {
    Secret
}

#[traced(err)]
fn no_error() -> u32 {
    1
}

#[traced(args(x = ?secret))]
fn not_debug(secret: &Secret) {}

fn main() {}
