//! A workload of the search engine tantivy: an index in memory of a given number of documents, and searches in it.
//! `cargo xtask bench whole` builds it beside the engine's sources.

use tantivy::collector::TopDocs;
use tantivy::query::QueryParser;
use tantivy::schema::{STORED, Schema, TEXT};
use tantivy::{Index, doc};

const WORDS: [&str; 12] = [
    "flight", "data", "recorder", "stays", "stream", "starter", "records", "nothing", "lost",
    "stronger", "thread", "ring",
];

/// The next of a row of numbers that seem random.
fn next(number: &mut u64) -> usize {
    *number = number
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*number >> 33) as usize
}

fn main() -> tantivy::Result<()> {
    let count: u32 = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number of documents");
    let mut schema = Schema::builder();
    let title = schema.add_text_field("title", TEXT | STORED);
    let body = schema.add_text_field("body", TEXT);
    let index = Index::create_in_ram(schema.build());
    let mut writer = index.writer_with_num_threads(1, 50_000_000)?;
    let mut number = 1;
    for document in 0..count {
        let mut text = String::new();
        for _ in 0..60 {
            text += WORDS[next(&mut number) % WORDS.len()];
            text += &format!("{} ", next(&mut number) % 500);
        }
        writer.add_document(doc!(title => format!("document {document}"), body => text))?;
    }
    writer.commit()?;
    let searcher = index.reader()?.searcher();
    let parser = QueryParser::for_index(&index, vec![title, body]);
    let mut found = 0;
    for _ in 0..500 {
        let mut word = || {
            format!(
                "{}{}",
                WORDS[next(&mut number) % WORDS.len()],
                next(&mut number) % 500
            )
        };
        let query = parser.parse_query(&format!("{} OR {}", word(), word()))?;
        found += searcher
            .search(&query, &TopDocs::with_limit(10).order_by_score())?
            .len();
    }
    println!("{found} of {count}");
    Ok(())
}
