//! The functions that this tool finds, beside those that the library `syn` finds, in every source of the project. It
//! must share nothing with the tool's own way through the tokens.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::marks::{Choice, Layout, Source, mark, with_marks};
use crate::worth::Rules;

/// Lines of functions with a body, outside of other functions and of macros.
struct Functions(BTreeSet<usize>);

impl Functions {
    fn add(&mut self, first: proc_macro2::Span) {
        self.0.insert(first.start().line);
    }
}

fn first(visibility: &syn::Visibility, sig: &syn::Signature) -> proc_macro2::Span {
    match visibility {
        syn::Visibility::Inherited => sig.span(),
        visible => visible.span(),
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(first(&item.vis, &item.sig));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(first(&item.vis, &item.sig));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if item.default.is_some() {
            self.add(item.sig.span());
        }
    }

    // Items of a block belong to a function or a constant.
    fn visit_block(&mut self, _: &'ast syn::Block) {}

    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !matches!(item, syn::Item::Const(_) | syn::Item::Static(_)) {
            visit::visit_item(self, item);
        }
    }
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                sources(&path, files);
            }
        } else if name.ends_with(".rs") && path.is_file() {
            files.push(path);
        }
    }
}

#[test]
fn every_function_of_the_project_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the project");
    let mut files = Vec::new();
    sources(root, &mut files);
    files.sort();
    assert!(files.len() > 300, "{} files", files.len());
    let halves = files.chunks(files.len().div_ceil(2));
    let count: usize = std::thread::scope(|scope| {
        let halves: Vec<_> = halves.map(|half| scope.spawn(|| compare(half))).collect();
        let counts = halves
            .into_iter()
            .map(|half| half.join().expect("no panic"));
        counts.sum()
    });
    assert!(count > 3000, "{count} functions");
}

/// Compares the functions of these files, and counts them.
fn compare(files: &[PathBuf]) -> usize {
    let choice = Choice {
        rules: Rules {
            always: true,
            ..Rules::default()
        },
        filter: None,
    };
    let mut count = 0;
    for path in files {
        let text = fs::read_to_string(path).expect("a source");
        let shown = path.display();
        let Ok(file) = syn::parse_file(&text) else {
            panic!("{shown}: no Rust");
        };
        let mut expected = Functions(BTreeSet::new());
        expected.visit_file(&file);
        let source = Source::parse(&text).unwrap_or_else(|error| panic!("{shown}:{}", error.line));
        assert_eq!(source.without_marks(), None, "{shown}");
        let (functions, _) = source.find("c", &choice);
        let found: BTreeSet<usize> = functions.iter().map(|function| function.line).collect();
        assert_eq!(found, expected.0, "{shown}");
        count += functions.len();
        let layout = match count % 2 {
            0 => Layout::OwnLine,
            _ => Layout::SameLine,
        };
        let marked = with_marks(&text, &functions, &mark("fdr"), layout);
        let again = Source::parse(&marked).unwrap_or_else(|error| panic!("{shown}:{}", error.line));
        let back = again.without_marks().unwrap_or_else(|| marked.clone());
        assert!(back == text, "{shown}: {layout:?}");
    }
    count
}
