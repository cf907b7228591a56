//! What this macro reads in signatures and bodies, beside what the library `syn` reads, in every source of the
//! project. It must share nothing with the macro's own way through the tokens.

use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Block, FnArg, Item, Pat, Signature, Stmt};

use crate::body::Body;
use crate::params::bound_by_value;

#[derive(Default)]
struct Functions {
    count: usize,
    with_items: usize,
}

impl Functions {
    fn compare(&mut self, signature: &Signature, body: &Block) {
        let body_tokens: TokenStream = body.stmts.iter().map(Stmt::to_token_stream).collect();
        let items = body.stmts.iter().map_while(|statement| match statement {
            // `name! {…}` is an item for `syn`, and a statement for the compiler.
            Stmt::Item(Item::Macro(called)) if called.ident.is_none() => None,
            Stmt::Item(item) => Some(item.to_token_stream()),
            _ => None,
        });
        let items: TokenStream = items.collect();
        let found = Body::split(body_tokens).items.to_string();
        let name = &signature.ident;
        assert_eq!(found, items.to_string(), "{name}");
        self.with_items += usize::from(!items.is_empty());

        let parameters = &signature.inputs;
        let generics = &signature.generics;
        let tokens = quote::quote!(#generics (#parameters));
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let found = bound_by_value(&tokens);
        let found: Vec<String> = found.iter().map(|found| found.name.to_string()).collect();
        let mut names = Names::default();
        signature.inputs.iter().for_each(|input| match input {
            FnArg::Receiver(receiver) if receiver.reference.is_none() => {
                names.0.push("self".into())
            }
            FnArg::Receiver(_) => {}
            FnArg::Typed(typed) => names.visit_pat(&typed.pat),
        });
        assert_eq!(found, names.0, "{name}");
        self.count += 1;
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.compare(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.compare(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

/// Names that patterns bind by value.
#[derive(Default)]
struct Names(Vec<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_pat(&mut self, pattern: &'ast Pat) {
        if let Pat::Ident(name) = pattern {
            if name.by_ref.is_none() {
                self.0.push(name.ident.to_string());
            }
        }
        visit::visit_pat(self, pattern);
    }
}

fn look(folder: &Path, functions: &mut Functions) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                look(&path, functions);
            }
        } else if name.ends_with(".rs") && path.is_file() {
            let text = fs::read_to_string(&path).expect("a source");
            let file = syn::parse_file(&text).expect("Rust");
            functions.visit_file(&file);
        }
    }
}

#[test]
fn signatures_and_bodies_of_the_project() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let mut functions = Functions::default();
    look(root.expect("the project"), &mut functions);
    let Functions { count, with_items } = functions;
    assert!(count > 3000 && with_items > 30, "{count} {with_items}");
}
