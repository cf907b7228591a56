//! Puts an attribute on every function below a folder that can have it, for `cargo xtask trial`. It must
//! never move a line or touch any other token, so that places in messages stay comparable.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, ItemFn, Signature, TraitItemFn, Visibility};

const ATTRIBUTE: &str = "#[fdr::traced] ";

/// What a folder's files gave.
#[derive(Default)]
struct Count {
    files: usize,
    functions: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if folders.is_empty() {
        return Err("which folders? usage: mark_functions FOLDER…".into());
    }
    for folder in folders {
        let mut count = Count::default();
        mark_folder(&folder, &mut count)?;
        println!(
            "{}: {} functions in {} files",
            folder.display(),
            count.functions,
            count.files
        );
    }
    Ok(())
}

fn mark_folder(folder: &Path, count: &mut Count) -> Result<(), Box<dyn Error>> {
    let said = |error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(said)? {
        paths.push(entry.map_err(said)?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_dir() {
            mark_folder(&path, count)?;
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && name != Some("build.rs")
        {
            mark_file(&path, count)?;
        }
    }
    Ok(())
}

fn mark_file(path: &Path, count: &mut Count) -> Result<(), Box<dyn Error>> {
    // Test data may be anything.
    let Ok(text) = fs::read_to_string(path) else {
        return Ok(());
    };
    let marked = match mark(&text) {
        Ok(marked) => marked,
        Err(error) => {
            eprintln!("{}: left as it is: {error}", path.display());
            return Ok(());
        }
    };
    count.files += 1;
    count.functions += marked.1;
    fs::write(path, marked.0).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(())
}

/// The text with the attribute before every function that can have it, and how many these are.
fn mark(text: &str) -> syn::Result<(String, usize)> {
    let (start, source) = without_shebang(text);
    let tokens: TokenStream = source.parse()?;
    let mut finder = Finder { places: Vec::new() };
    finder.visit_file(&syn::parse2(tokens)?);
    let mut places = finder.places;
    places.sort_unstable();
    let mut marked = text[..start].to_owned();
    let mut copied = 0;
    for &place in &places {
        marked += &source[copied..place];
        marked += ATTRIBUTE;
        copied = place;
    }
    marked += &source[copied..];
    Ok((marked, places.len()))
}

/// The source behind a byte order mark and a `#!` line, which are no tokens, and where it begins.
fn without_shebang(text: &str) -> (usize, &str) {
    let mut start = text.len() - text.trim_start_matches('\u{feff}').len();
    let rest = &text[start..];
    if rest.starts_with("#!") && !rest[2..].trim_start().starts_with('[') {
        start += rest.find('\n').unwrap_or(rest.len());
    }
    (start, &text[start..])
}

/// Finds where a function's visibility or first qualifier begins.
struct Finder {
    places: Vec<usize>,
}

impl Finder {
    fn add(&mut self, attributes: &[Attribute], visibility: Option<&Visibility>, sig: &Signature) {
        if sig.constness.is_some() || attributes.iter().any(is_naked) {
            return;
        }
        let first = match visibility {
            Some(visibility) if !matches!(visibility, Visibility::Inherited) => visibility.span(),
            _ => start_of(sig),
        };
        self.places.push(first.byte_range().start);
    }
}

fn start_of(sig: &Signature) -> Span {
    let asyncness = sig.asyncness.map(|token| token.span);
    let unsafety = sig.unsafety.map(|token| token.span);
    let abi = sig.abi.as_ref().map(|abi| abi.extern_token.span);
    asyncness.or(unsafety).or(abi).unwrap_or(sig.fn_token.span)
}

fn is_naked(attribute: &Attribute) -> bool {
    let path = attribute.path();
    path.is_ident("naked")
        || (path.is_ident("unsafe")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("naked")))
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.attrs, Some(&function.vis), &function.sig);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        // `default fn` has not come to stable compilers.
        if function.defaultness.is_none() {
            self.add(&function.attrs, Some(&function.vis), &function.sig);
        }
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if function.default.is_some() {
            self.add(&function.attrs, None, &function.sig);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::mark;

    #[test]
    fn every_form_of_function() {
        for (text, marked) in [
            ("fn a() {}", "@fn a() {}"),
            (
                "/// é\n#[inline]\npub(crate) async unsafe fn a() { fn b() {} }",
                "/// é\n#[inline]\n@pub(crate) async unsafe fn a() { @fn b() {} }",
            ),
            (
                "impl A { pub const fn b() {} extern \"C\" fn c() {} }",
                "impl A { pub const fn b() {} @extern \"C\" fn c() {} }",
            ),
            (
                "trait A { fn b(); unsafe fn c() {} }",
                "trait A { fn b(); @unsafe fn c() {} }",
            ),
            (
                "macro_rules! a { () => { fn b() {} } }",
                "macro_rules! a { () => { fn b() {} } }",
            ),
            (
                "#[unsafe(naked)] extern \"C\" fn a() { naked_asm!(\"\") }",
                "#[unsafe(naked)] extern \"C\" fn a() { naked_asm!(\"\") }",
            ),
            (
                "const _: () = { fn a() {} };",
                "const _: () = { @fn a() {} };",
            ),
            (
                "\u{feff}#!/bin/x\nfn a() { || { fn b() {} }; }",
                "\u{feff}#!/bin/x\n@fn a() { || { @fn b() {} }; }",
            ),
            ("#![allow(x)]\nfn a() {}", "#![allow(x)]\n@fn a() {}"),
        ] {
            let (found, count) = mark(text).expect(text);
            assert_eq!(found.replace(super::ATTRIBUTE, "@"), marked);
            assert_eq!(count, marked.matches('@').count(), "{text}");
        }
    }

    #[test]
    fn what_is_no_rust_is_an_error() {
        assert!(mark("fn (").is_err());
        assert!(mark("this is a text").is_err());
    }
}
