//! Mistakes in a signature, a body, an option and a scope are where a person wrote them, and so are lints.
#![deny(warnings)]

use fdr::traced;

#[traced]
fn in_a_signature(argument: Missing) -> u8 {
    1
}

#[traced]
fn in_a_body(argument: u8) -> u8 {
    argument.not_there()
}

#[traced]
async fn in_an_async_body(argument: String, unused: u8) -> u8 {
    std::future::ready(()).await;
    argument.not_there()
}

#[traced(args(key = argument.not_there()))]
fn in_an_option(argument: u8) -> u8 {
    argument
}

#[traced]
fn lints(mut argument: u8, unused: u8) -> u8 {
    let never_read = 1;
    return argument;
}

struct Scope;

#[traced]
impl Scope {
    fn method(&self, unused: u8) -> u8 {
        loop {
            self.not_there();
        }
    }
}

macro_rules! pieces {
    ($vis:vis $name:ident, $type:ty, $value:expr, $body:block) => {
        #[traced]
        $vis fn $name(argument: $type) -> u8 {
            let value: u8 = $value;
            $body
        }
    };
}

pieces!(pub(crate) given, u8, "a text", { not_there + 1 });

fn main() {}
