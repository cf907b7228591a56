//! Notes in CTF folders: a class of events for each name, typed by hand.

use crate::common::ctf::{read_whole, write};
use crate::common::{Event, Folder, Random, thread};
use crate::notes::{TEXT, random_note};
use crate::notes_formats::{around, event, table};
use fdr_formats::TraceInfo;
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::{Field, FieldValue, Note, RESULT};

/// Writes these and reads them again: they are the same, and nothing was lost.
fn comes_back(info: &TraceInfo, events: &[Event]) -> Folder {
    let (folder, losses) = write(info, &[(thread(7), events.to_vec())]);
    assert!(losses.is_empty(), "{losses}");
    let read = read_whole(folder.path());
    assert_eq!(read.log.events(7), events);
    assert_eq!(read.info.functions, info.functions);
    folder
}

#[test]
fn a_name_is_a_class_with_typed_fields() {
    let info = table(&[
        (1, "app::run", FunctionKind::Calls),
        (2, "app::accepted", FunctionKind::Event),
        (3, "id", FunctionKind::Name),
        (4, "path to", FunctionKind::Name),
        (5, "app::queue", FunctionKind::Event),
    ]);
    let path = FieldValue::Text("/tmp/ü".as_bytes(), 7);
    let accepted = |id| event(2, 0, 4, &[(3, FieldValue::Unsigned(id)), (4, path)]);
    let result = Note::Arguments {
        function: 1,
        fields: vec![Field {
            name: 3,
            place: RESULT,
            value: FieldValue::Truth(true),
        }],
    };
    let notes = [
        accepted(1),
        event(5, 3, 0, &[(0, FieldValue::Signed(-1))]),
        accepted(2),
        // Another class, because the text was cut.
        event(
            2,
            0,
            4,
            &[
                (3, FieldValue::Unsigned(1)),
                (4, FieldValue::Text(b"/", 100)),
            ],
        ),
        result,
    ];
    let folder = comes_back(&info, &around(&notes));
    let metadata = folder.text("metadata");
    let classes = metadata
        .split("\nevent {\n")
        .skip_while(|class| !class.contains("id = 12;"));
    let classes: Vec<&str> = classes.collect();
    let wanted = [
        "\tname = \"app::accepted\";\n\tid = 12;\n\tstream_id = 0;\n\tloglevel = 4;\n\tfields := struct {\n\
         \t\tuint64_t _id;\n\t\tstring { encoding = UTF8; } _path_to;\n\t};\n};\n",
        "\tname = \"app::queue\";\n\tid = 13;\n\tstream_id = 0;\n\tfields := struct {\n\
         \t\tint64_t _value;\n\t};\n};\n",
        "\tname = \"app::accepted\";\n\tid = 14;\n\tstream_id = 0;\n\tloglevel = 4;\n\tfields := struct {\n\
         \t\tuint64_t _id;\n\t\tuint64_t _path_to_bytes;\n\
         \t\tstring { encoding = UTF8; } _path_to;\n\t};\n};\n",
        "\tname = \"result of app::run\";\n\tid = 15;\n\tstream_id = 0;\n\tfields := struct {\n\
         \t\tuint8_t _id;\n\t};\n};\n",
    ];
    assert_eq!(classes, wanted);
    // An event byte for byte: class, time, process 0, thread 7, its name, then the fields.
    let bytes = folder.bytes("thread-7");
    let mut wanted = vec![12];
    wanted.extend(2000_u64.to_le_bytes());
    wanted.extend([0, 0, 0, 0, 7, 0, 0, 0]);
    wanted.extend(b"thread 7\0");
    wanted.extend(1_u64.to_le_bytes());
    wanted.extend("/tmp/ü\0".as_bytes());
    let found = bytes.windows(wanted.len()).filter(|at| *at == wanted);
    assert_eq!(found.count(), 1);
    // The functions for Trace Compass are those that have calls.
    let map = folder.text(".fdr-functions.txt");
    assert_eq!(map, "0000000000000001 T app::run\n");
}

#[test]
fn classes_beyond_the_numbers_are_bytes() {
    let mut random = Random(3);
    let notes: Vec<Note<'_>> = (0..1500).map(|_| random_note(&mut random, TEXT)).collect();
    // There are more classes than numbers. Notes of the other classes are written as bytes, and a loss says that other
    // readers can't read these.
    let (_, losses) = write(&TraceInfo::default(), &[(thread(7), around(&notes))]);
    let troubles: Vec<_> = losses.notes().collect();
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert!(troubles[0].0.contains("beyond 244"), "{troubles:?}");
}

#[test]
fn a_trace_without_notes_is_written_as_ever() {
    let info = table(&[(1, "app::run", FunctionKind::Calls)]);
    let folder = comes_back(&info, &around(&[]));
    let metadata = folder.text("metadata");
    for word in ["fdr:note", "fdr:task", "fdr:class", "fdr:name", "id = 8;"] {
        assert!(!metadata.contains(word), "{word}");
    }
}
