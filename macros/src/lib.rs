//! `#[traced]`: the attribute of the `fdr` flight data recorder. Use it as `fdr::traced`. It has a crate of its own
//! because the compiler wants that of a macro. It must never do anything but read and write tokens, and its expansions
//! name nothing but `fdr::private`.
//!
//! | file | what it does |
//! | --- | --- |
//! | `options` | reads what stands in the attribute's parentheses |
//! | `arguments` | reads which arguments and results are recorded, and makes the code for them |
//! | `parse` | finds a function's name, qualifiers and body in its tokens |
//! | `scope` | traces the functions of an `impl`, a trait or a module |
//! | `params` | names what a signature binds by value |
//! | `body` | splits a body where a statement can go in front |
//! | `canonical` | finds bodies that clippy compares with one form |
//! | `frame` | says which bodies get a stack frame of their own |
//! | `desugar` | writes an `async fn` as a `fn` that gives back a future |
//! | `process` | asks which compiler expands the attribute |
//! | `expand` | puts the recording function together |
//!
//! The tokens of a function are output as they came. `syn` only inspects them. So syntax that is newer than `syn`
//! passes, and messages show the places of the source. The crate `fdr-marks` finds the functions of a scope, and
//! decides which of them are worth two clock reads.
#![forbid(unsafe_code)]

mod arguments;
mod body;
mod canonical;
mod desugar;
mod expand;
mod frame;
mod options;
mod params;
mod parse;
mod process;
mod scope;
#[cfg(test)]
mod tokens_tests;

use fdr_marks::items::Kind;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Result};

use crate::expand::expand;
use crate::options::Options;
use crate::parse::{Function, sole_item};
use crate::process::shows_signatures;
use crate::scope::{expand_scope, is_scope};

/// Records when a function is entered and when it is left.
///
/// Each call writes an entry record and an exit record of 8 bytes into the ring of the calling thread. Once the ring
/// is full, short calls leave only sums, unless `FDR_KEEP` is `0`. While recording is off for this function, a call
/// costs one load and one branch. The environment variable `FDR`, `fdr::enable` and `fdr::set_filter` turn recording
/// on and off.
///
/// ```text
/// use fdr::traced;
///
/// #[traced]
/// fn parse(line: &str) -> Option<u32> {
///     line.trim().parse().ok()
/// }
///
/// struct Index;
///
/// impl Index {
///     #[traced]
///     fn insert(&mut self, word: &str) { /* … */ }
///
///     #[traced(name = "Index::merge (slow path)")]
///     fn merge_slowly(&mut self, other: &Index) { /* … */ }
/// }
/// ```
///
/// # Where it goes
///
/// It goes on every function that has a body: free and associated functions, methods of types and of traits, and
/// functions inside functions. They may be generic, `unsafe`, `extern "C"`, `async` or diverging. Other attributes may
/// stand before or after it. It does not go on a `const fn`, because there is no clock at compile time.
/// Nor does it go on a naked function, or on a function without a body. The compiler says so there.
///
/// On an `impl` block, a trait or an inline module it stands for the functions inside, also for those of modules
/// inside. It leaves out functions that are not worth two clock reads. Such a function has no loop, waits for nothing,
/// and runs less than about 65 instructions of its own, as far as the source shows. What cannot be traced is left out
/// without a message. A function or scope inside that has the attribute itself keeps its own options. If no function is
/// left that is traced, the compiler warns.
///
/// ```text
/// #[traced]
/// impl Index {
///     fn merge(&mut self, other: &Index) { for word in other { /* … */ } }
///
///     fn len(&self) -> usize { self.words.len() } // left out
///
///     #[traced(always)]
///     fn version(&self) -> u32 { self.version }
///
///     #[traced(skip)]
///     fn rebuild(&mut self) { for word in &self.words { /* … */ } }
/// }
/// ```
///
/// # What is recorded
///
/// - The **entry**, before the first statement of the body.
/// - The **exit**, on every way out: the end of the body, `return`, `?`, and a panic that unwinds.
///   It comes after the body's variables are dropped and before the parameters are. A function that
///   never comes back (`process::exit`, an endless loop, a panic that aborts) has no exit.
/// - In an **`async fn`**, an entry and an exit around every poll, so that time spent waiting is not
///   counted as time spent running.
/// - The same in a **`fn` that gives back a future**: its body ends in `async move { … }` or in
///   `Box::pin(async move { … })`, as methods of `async_trait` do. The call that makes the future leaves no record. With
///   `args(…)`, this holds if the future has these parameters anyway.
/// - The function's **name** as a person would say it: `my_crate::module::Type::method`,
///   `<Type as Trait>::method`, without hashes; with it the file and the line of the name. All
///   instances of a generic function are one function. A method called on a `dyn Trait` is the
///   method of the type behind it.
/// - Neither arguments nor results, unless the attribute asks for them.
///
/// # Options
///
/// | option | meaning |
/// | --- | --- |
/// | `name = "…"` | the whole name to use in traces, in place of the function's path |
/// | `crate = path` | where to find `fdr`, if it is renamed or reached through another crate: `crate = my_framework::fdr` |
/// | `untimed` | records without times, for hot leaves: see below |
/// | `args` | the parameters that are numbers, truth values, characters or pointers: see below |
/// | `args(…)` | these parameters and expressions |
/// | `ret`, `ret = %`, `ret = ?` | the result |
/// | `err`, `err = ?` | the error, if the result is an `Err` |
/// | `always` | the function is traced, even if a scope's rule would leave it out; on a scope: each function is traced |
/// | `skip` | the function or scope is not traced |
/// | `min_statements = n` | on a scope: functions of fewer than n statements are left out, and no others |
/// | `skip_inline` | on a scope: functions with any form of `#[inline]` are left out, too |
/// | `auto` | `cargo fdr` wrote the attribute, and can remove it; calls of the function may be only counted (`FDR_BUDGET`) |
///
/// # Without times
///
/// With `FDR_KEEP=0`, clock reads are most of the cost of a traced call. `#[traced(untimed)]` leaves them out. Order,
/// nesting and number of the calls are recorded, and their durations are not. Each record has the time of the thread's
/// previous record, and the size of any other. Without `FDR_KEEP=0`, such a call costs as much as a timed one.
///
/// ```text
/// #[traced(untimed)]
/// fn hash(word: &str) -> u64 { /* a few nanoseconds of work, called millions of times */ }
/// ```
///
/// Traces say of a function that it is untimed. `fdr` shows its calls and no times. The time that passed in it is
/// self time of the timed function that called it. Timed functions that it calls keep their own time. Other people's
/// tools show its calls with duration zero. In an `async fn`, each poll has no times.
///
/// # Arguments and results
///
/// ```text
/// #[traced(args(path = ?path, mode, size = data.len()), err)]
/// fn store(path: &Path, mode: u32, data: &[u8]) -> io::Result<()> { /* … */ }
///
/// #[traced(args, ret)]
/// fn mix(seed: u64, round: u32) -> u64 { /* … */ }
/// ```
///
/// | form | what is recorded |
/// | --- | --- |
/// | `args` | each parameter that is a number, `bool`, `char` or pointer, or a reference to one. No text, no `self`, and no parameter whose name begins with `_` |
/// | `name`, `key = value` in `args(…)` | a number, a truth value, a character, a string, an address |
/// | `key = %value`, `%name` | its text by `Display` |
/// | `key = ?value`, `?name` | its text by `Debug` |
/// | `ret`, `ret = %`, `ret = ?` | the result, in the same three forms |
/// | `err`, `err = ?` | the error of a `Result`, by `Display` or `Debug`. With `ret`, too, that is the value of an `Ok` |
///
/// Arguments are evaluated once, behind the entry and before the body, and only if the call is recorded. The result is
/// taken at the end of the body and at each `return` and `?`. A panic has none. In an `async fn`, the arguments belong
/// to the first poll, and the result to the last. A text has at most 256 bytes, the rest is cut.
///
/// With `ret` or `err`, the body is a closure or a future inside of the function. So parameters that the body uses are
/// dropped before the exit, and `Location::caller` in the body is a place in this function.
///
/// # What it leaves alone
///
/// The body is compiled as it is written. Types, borrows, errors and clippy's lints are the same as without the
/// attribute. The crate may forbid unsafe code and deny warnings. With the
/// feature `record` of `fdr` off, the function is given back unchanged.
///
/// These lints say nothing of a traced function. The first one's advice would be wrong there. The others do
/// not recognise a body to which code is added.
///
/// | lint | where |
/// | --- | --- |
/// | `clippy::missing_const_for_fn` | everywhere |
/// | `clippy::derivable_impls` | on `default` of an `impl Default` that could be derived |
/// | `clippy::manual_async_fn` | on a `fn` that holds nothing but an `async` block |
/// | `clippy::needless_return` | on `return *self;` in `clone`, and on its like in `partial_cmp` |
/// | clippy's on the text of documentation | where they need each word's place, which no attribute hands on |
/// | `unconditional_recursion` | on a function of many calls |
/// | `async_fn_in_trait` | on a method of a trait, if it has a body and an attribute of its own |
/// | `unused_assignments` | in an `async fn` of [two coroutines](#async-functions) that has a `mut` parameter |
/// | `unused_variables` | in such a function, for a parameter whose name the body uses for something else |
///
/// # Async functions
///
/// An `async fn` that awaits becomes what the compiler itself makes of it: a `fn` that gives back a future. The future
/// is one coroutine in a wrapper. Documentation, editors and clippy see the `async fn`.
///
/// The compiler finds out level by level whether a future is `Send`, and gives up behind 128 steps. A higher
/// `#![recursion_limit]` allows more. A chain of 25 traced functions that await each other is within 128 steps. Where a
/// person could see the difference, the function stays an `async fn`, with a second coroutine for its body. Of such
/// functions, a chain of 14 is within the steps.
///
/// | functions of two coroutines | why |
/// | --- | --- |
/// | with `self`, `mut self` or `self: Type` | `self` can't be moved as a whole |
/// | with `&`, a lifetime or `dyn` in the return type, or two lifetimes in the type of one parameter | a message about a lifetime would point to another place |
/// | with an attribute that is not one of the compiler's, such as `#[tokio::main]`; inside of a marked scope, also with one on the scope | the other macro may look for `async` |
/// | with `#[must_use]` or `#[track_caller]` | they would mean the future |
/// | with an attribute on a parameter, `unsafe`, `extern`, or `-> !`; of a marked trait | lints and rules of the language |
/// | with `ret` or `err` | the second coroutine gives the result to the recorder |
///
/// # Limits
///
/// - Where nothing is optimized, a function takes more stack: up to some hundred bytes. Each call whose result comes
///   in registers takes a slot for the result. So a body of 16 calls or more becomes a closure, if the function's
///   parameters are references or numbers. Backtraces show the closure as a frame of its own.
/// - In an `async fn` that awaits, notes below an error say "async block" instead of "async function". A closure that the
///   function returns as `impl Fn(…)` needs the types of its arguments. The compiler accepts a parameter's type whose
///   lifetime is hidden, such as `Formatter` for `Formatter<'_>`.
/// - In a function of two coroutines, a part of a parameter may be dropped later than in the plain function. Such a part
///   is not bound by value to a name that the body uses: `_`, `_name`, `ref name`, or a name only in `"{name}"`. It is
///   dropped after the parts that are. The future stores the parameters that the body uses once more.
#[proc_macro_attribute]
pub fn traced(
    options: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    let item = TokenStream::from(item);
    match checked(options.into(), item.clone()) {
        Ok(expanded) => expanded.into(),
        // With the item beside the error, its users do not fail for the lack of it.
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#error #item).into()
        }
    }
}

fn checked(options: TokenStream, tokens: TokenStream) -> Result<TokenStream> {
    let options = syn::parse2::<Options>(options);
    let is_skipped = matches!(&options, Ok(options) if options.skip);
    let is_off = is_skipped || cfg!(not(feature = "record"));
    let options = options.map(|options| Options {
        desugars: !shows_signatures(),
        ..options
    });
    let item = sole_item(tokens.clone());
    if is_scope(&item) {
        let options = options?;
        scope::check(&item, &options)?;
        return Ok(match is_off {
            true => tokens,
            false => expand_scope(item, options),
        });
    }
    // A scope leaves out what cannot be traced, and so can a person.
    let is_function = item.kind == Kind::Function;
    let (function, options) = match (Function::from_item(item), options) {
        (Err(_), Ok(_)) if is_skipped && is_function => return Ok(tokens),
        (Err(mut first), Err(second)) => {
            first.combine(second);
            return Err(first);
        }
        (function, options) => (function?, options?),
    };
    if let Some(rule) = &options.of_scopes {
        return Err(Error::new(
            rule.span(),
            format!(
                "`{rule}` is for an `impl`, a trait or a module: it says which functions are left out\n\
                 remove it, or the whole attribute"
            ),
        ));
    }
    options.values.check(&function)?;
    Ok(match is_off {
        true => tokens,
        false => expand(function, &options),
    })
}
