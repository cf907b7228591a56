//! Reads an HTDUMP file with the crate hawktracer-parser: `parse FILE`. Prints each call,
//! `thread<TAB>start<TAB>duration<TAB>label` a line (times in ns), in the order of the file, then the
//! number of events of all kinds. With `parse FILE fields` it prints the events of klasses that are neither
//! HawkTracer's nor `fdr`'s instead: `klass<TAB>field=value<TAB>…`. Fails where the parser does not come to the end
//! of the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use hawktracer_parser::data_provider::{DataError, DataProvider};
use hawktracer_parser::{Event, EventKlassRegistry, EventReader, ReadEventError, Value};

fn main() -> ExitCode {
    let path = std::env::args_os().nth(1).expect("parse FILE");
    let file = File::open(path).expect("a readable file");
    let wants_fields = std::env::args_os().nth(2).is_some();
    let mut reader = EventReader::new(DataProvider::new(Box::new(file)));
    let mut registry = EventKlassRegistry::new();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut labels, mut events) = (HashMap::new(), 0u64);
    loop {
        let event = match reader.read_event(&mut registry) {
            Ok(event) => event.flat_event(),
            // The parser reports the end of the file and an end within a record in the same way. The caller checks the
            // number of events.
            Err(ReadEventError::DataError(DataError::EndOfStream)) => break,
            Err(error) => {
                eprintln!("after {events} events: {error:?}");
                return ExitCode::FAILURE;
            }
        };
        events += 1;
        let klass = registry.get_klass_by_id(event.get_klass_id());
        let klass = klass.map_or("", |klass| klass.get_name());
        if wants_fields {
            if !klass.starts_with("HT_") && !klass.starts_with("FDR_") {
                let fields = event.get_all_values().iter();
                let mut fields: Vec<String> = fields
                    .map(|(name, value)| format!("\t{name}={value}"))
                    .collect();
                fields.sort();
                writeln!(out, "{klass}{}", fields.concat()).expect("somebody reads");
            }
            continue;
        }
        if klass == "HT_StringMappingEvent" {
            let identifier = event.get_value_u64("identifier").expect("a number");
            let label = event.get_value_string("label").expect("a text");
            labels.insert(identifier, label.clone());
        } else if let Some((thread, start, duration)) = call(&event) {
            let label = match event.get_raw_value("label") {
                Some(Value::U64(identifier)) => labels.get(identifier).cloned(),
                Some(Value::Str(label)) => Some(label.clone()),
                _ => None,
            };
            let label = label.expect("a label that was mapped before");
            writeln!(out, "{thread}\t{start}\t{duration}\t{label}").expect("somebody reads");
        }
    }
    if !wants_fields {
        writeln!(out, "events\t{events}").expect("somebody reads");
    }
    ExitCode::SUCCESS
}

fn call(event: &Event) -> Option<(u32, u64, u64)> {
    let thread = event.get_value_u32("thread_id").ok()?;
    let start = event.get_value_u64("timestamp").ok()?;
    let duration = event.get_value_u64("duration").ok()?;
    Some((thread, start, duration))
}
