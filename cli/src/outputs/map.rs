//! `fdr convert --to map`: a side file with which llvm-xray shows the names of a trace's functions.
//!
//! A tiny ELF object: the section `xray_instr_map`, in which llvm-xray counts function ids, an
//! empty `.text` to which its addresses point, and symbols. Source: LLVM's reader of
//! instrumentation maps, tried with versions 14 and 19.
//!
//! An entry of `xray_instr_map`, 32 bytes, little-endian:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | address of the patchable place, less the address of this field |
//! | 8 | 8 | address of its function, less the address of this field |
//! | 16 | 1 | kind: 0 entry, 1 exit |
//! | 17 | 1 | always instrumented: 1 |
//! | 18 | 1 | version: 2 (both addresses are relative to their fields) |
//! | 19 | 13 | zero |
//!
//! Ids are not stored. They count from 1, and increase where the function differs from the previous entry's. So ids
//! that the trace does not name get entries, too.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail};
use fdr_formats::registry::FORMATS;
use fdr_formats::writer::Target;
use fdr_formats::{Function, Source, TraceInfo};
use object::write::{Object, SectionId, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope, elf,
};

use super::conversion::Job;
use super::export;
use crate::output_file::Pending;
use crate::{memory, trace, ui};

/// Larger ids are refused: the map has an entry for every id up to the largest.
const MAX_ID: u32 = 1 << 22;
/// Bytes of `.text` that a function takes: entry at 0, exit at 8.
const STRIDE: u64 = 16;

/// The format that llvm-xray reads.
const XRAY: &str = "xray";

/// The target's name, title and end.
pub(crate) static TARGET: Target = export::target("map", "functions' names for llvm-xray", "map");

/// Writes the map of a trace.
///
/// # Errors
/// Where the trace has no names, or the map can't be written.
pub(crate) fn send(source: &dyn Source, job: &Job<'_>, out: impl Write) -> anyhow::Result<()> {
    let trace = job.trace;
    trace::warn_of_damage(trace, source.diagnostics(), 0);
    memory::grows("the map's entries and symbols");
    let elf = build(source.info()).with_context(|| ui::path(trace))?;
    write_object(&elf, &mut BufWriter::new(out))
}

/// Writes the map of a trace to that file.
///
/// # Errors
/// As [`send`].
pub(crate) fn write(source: &dyn Source, job: &Job<'_>, output: &Path) -> anyhow::Result<()> {
    let (trace, info) = (job.trace, source.info());
    let (mut pending, file) = Pending::file(output, job.force)?;
    let sent = send(source, job, file);
    sent.map_err(|error| match error.is::<io::Error>() {
        true => error.context(ui::path(output)),
        false => error,
    })?;
    pending.place()?;
    let (map, trace) = (ui::shell(output), ui::shell(trace));
    let functions = ui::things(info.called().count() as u64, "function");
    let next = match is_xray(info) {
        true => format!("llvm-xray account -m {map} {trace}"),
        // The conversion keeps the ids.
        false => format!("fdr convert {trace} --to {XRAY}, and llvm-xray account -m {map} of that"),
    };
    if !job.quiet {
        ui::complain(&format!("{functions} in {map}; next: {next}"));
    }
    Ok(())
}

/// Writes and flushes the object, without a copy of it in memory.
fn write_object(elf: &Object<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    elf.write_stream(out)
        .map_err(|error| match error.downcast() {
            Ok(error) => anyhow::Error::new::<io::Error>(*error),
            Err(error) => anyhow::Error::msg(error.to_string()),
        })
}

/// Whether llvm-xray reads the trace as it is.
fn is_xray(info: &TraceInfo) -> bool {
    let xray = FORMATS.iter().find(|format| format.name == XRAY);
    xray.is_some_and(|format| info.format.starts_with(format.title))
}

/// The ELF object for a trace.
fn build(info: &TraceInfo) -> anyhow::Result<Object<'static>> {
    let named = |function: &&Function| function.id.0 > 0 && !function.name.is_empty();
    let functions: Vec<&Function> = info.called().filter(named).collect();
    let Some(last) = functions.last().map(|function| function.id.0) else {
        bail!("the trace has no names of functions; there is nothing to map");
    };
    if last > MAX_ID {
        bail!("function id {last} is too large for a map (up to {MAX_ID}); the trace is damaged");
    }
    let mut elf = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = add_text(&mut elf, u64::from(last));
    add_instructions(&mut elf, u64::from(last));
    for (nth, function) in functions.into_iter().enumerate() {
        if nth % 4096 == 0 {
            memory::check()?;
        }
        add_symbol(&mut elf, text, function);
    }
    Ok(elf)
}

fn address(id: u64) -> u64 {
    id * STRIDE
}

/// A `.text` that takes addresses and no space.
fn add_text(elf: &mut Object<'_>, last: u64) -> SectionId {
    let text = elf.add_section(
        Vec::new(),
        b".text".to_vec(),
        SectionKind::UninitializedData,
    );
    *elf.section_flags_mut(text) = SectionFlags::Elf {
        sh_type: elf::SHT_NOBITS,
        sh_flags: elf::SHF_ALLOC | elf::SHF_EXECINSTR,
    };
    elf.append_section_bss(text, address(last + 1), STRIDE);
    text
}

fn add_instructions(elf: &mut Object<'_>, last: u64) {
    let mut entries = Vec::with_capacity(last as usize * 64);
    for id in 1..=last {
        for (kind, place) in [(0, address(id)), (1, address(id) + 8)] {
            let at = entries.len() as u64;
            entries.extend(place.wrapping_sub(at).to_le_bytes());
            entries.extend(address(id).wrapping_sub(at + 8).to_le_bytes());
            entries.extend([kind, 1, 2]);
            entries.extend([0; 13]);
        }
    }
    let map = elf.add_section(
        Vec::new(),
        b"xray_instr_map".to_vec(),
        SectionKind::ReadOnlyData,
    );
    elf.set_section_data(map, entries, 8);
}

/// A symbol at the function's address; the file symbol before it says where the function is.
fn add_symbol(elf: &mut Object<'_>, text: SectionId, function: &Function) {
    let file = match (function.file.as_str(), function.line) {
        ("", _) => "(unknown)".to_owned(),
        (file, 0) => file.to_owned(),
        (file, line) => format!("{file}:{line}"),
    };
    elf.add_file_symbol(printable(&file));
    elf.add_symbol(Symbol {
        name: printable(&function.name),
        value: address(u64::from(function.id.0)),
        size: STRIDE,
        kind: SymbolKind::Text,
        scope: SymbolScope::Compilation,
        weak: false,
        section: SymbolSection::Section(text),
        flags: SymbolFlags::None,
    });
}

/// llvm-xray writes names unescaped into its JSON: what would end a string there, or act on a
/// terminal, is replaced.
fn printable(text: &str) -> Vec<u8> {
    let replace = |character| match character {
        '"' => '\'',
        '\\' => '/',
        character if ui::is_unsafe(character) => '?',
        character => character,
    };
    text.chars().map(replace).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fdr_formats::FunctionId;

    fn info(functions: &[(u32, &str)]) -> TraceInfo {
        let function = |&(id, name): &(u32, &str)| Function {
            id: FunctionId(id),
            name: name.into(),
            file: "src/a.rs".into(),
            line: 7,
            untimed: false,
            kind: Default::default(),
        };
        TraceInfo {
            functions: functions.iter().map(function).collect(),
            ..TraceInfo::default()
        }
    }

    #[test]
    fn entries_are_32_bytes_and_relative_to_themselves() {
        let elf = build(&info(&[(2, "a::b")])).unwrap();
        let sections = elf.write().unwrap();
        let mut entry = Vec::new();
        // Id 1, exit: the entry at byte 32 of the section; place 24, function 16.
        entry.extend((24_i64 - 32).to_le_bytes());
        entry.extend((16_i64 - 40).to_le_bytes());
        entry.extend([1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(entry.len(), 32);
        assert!(sections.windows(32).any(|window| window == entry));
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(printable("a\"b\\c\x1b\n"), b"a'b/c??");
        assert_eq!(printable("Größe<T>"), "Größe<T>".as_bytes());
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        assert!(build(&info(&[])).is_err());
        assert!(build(&info(&[(3, "")])).is_err());
        assert!(build(&info(&[(0, "zero")])).is_err());
        let mut event = info(&[(1, "an event")]);
        event.functions[0].kind = fdr_formats::model::FunctionKind::Event;
        assert!(build(&event).is_err());
        let error = build(&info(&[(1, "a"), ((1 << 28) - 1, "b")])).unwrap_err();
        assert!(error.to_string().contains("268435455"), "{error}");
    }
}
