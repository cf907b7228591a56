//! A workload of the SQL engine gluesql: inserts, updates, joins and groups in memory. `cargo xtask bench whole` builds
//! it beside the engine's sources.

use gluesql_core::prelude::{Glue, Payload};
use gluesql_memory_storage::MemoryStorage;

fn main() {
    let rounds: u32 = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number of rounds");
    let mut glue = Glue::new(MemoryStorage::default());
    let mut run = |sql: &str| -> usize {
        let answers = glue
            .execute(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rows = |payload: &Payload| match payload {
            Payload::Select { rows, .. } => rows.len(),
            _ => 0,
        };
        answers.iter().map(rows).sum()
    };
    run("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, town INTEGER)");
    run("CREATE TABLE towns (id INTEGER PRIMARY KEY, name TEXT)");
    for town in 0..20 {
        run(&format!("INSERT INTO towns VALUES ({town}, 'town {town}')"));
    }
    let mut rows = 0;
    for round in 0..rounds {
        for person in round * 20..round * 20 + 20 {
            let town = person * 7 % 20;
            run(&format!(
                "INSERT INTO people VALUES ({person}, 'person {person}', {town})"
            ));
        }
        run(&format!(
            "UPDATE people SET name = 'renamed' WHERE id = {}",
            round * 20 + 3
        ));
        rows += run(&format!(
            "SELECT id, name FROM people WHERE town = {} ORDER BY name",
            round % 20
        ));
        rows += run("SELECT town, COUNT(*) FROM people GROUP BY town");
        rows += run(&format!(
            "SELECT p.name, t.name FROM people p JOIN towns t ON t.id = p.town WHERE p.id < {}",
            round * 2
        ));
    }
    println!("{rows} rows");
}
