//! HTDUMP streams built without the library's encoder.
#![allow(dead_code, unreachable_pub, missing_docs)]

/// A stream in either byte order, built record by record without the library's encoder.
pub struct Stream {
    pub bytes: Vec<u8>,
    big: bool,
}

impl Stream {
    /// Begins with the byte order.
    pub fn new(big: bool) -> Stream {
        let mut stream = Stream {
            bytes: Vec::new(),
            big,
        };
        stream.endianness();
        stream
    }

    fn number(&mut self, value: u64, size: usize) {
        let little = value.to_le_bytes();
        let digits = &little[..size];
        if self.big {
            self.bytes.extend(digits.iter().rev());
        } else {
            self.bytes.extend(digits);
        }
    }

    fn endianness(&mut self) {
        self.bytes.extend([0; 20]);
        self.bytes.push(u8::from(self.big));
    }

    /// From here on in the other byte order.
    pub fn turn(&mut self) -> &mut Stream {
        self.big = !self.big;
        self.endianness();
        self
    }

    pub fn header(&mut self, klass: u32, time: u64) -> &mut Stream {
        self.number(klass.into(), 4);
        self.number(time, 8);
        self.number(7, 8);
        self
    }

    pub fn u8(&mut self, value: u8) -> &mut Stream {
        self.number(value.into(), 1);
        self
    }

    pub fn u16(&mut self, value: u16) -> &mut Stream {
        self.number(value.into(), 2);
        self
    }

    pub fn u32(&mut self, value: u32) -> &mut Stream {
        self.number(value.into(), 4);
        self
    }

    pub fn u64(&mut self, value: u64) -> &mut Stream {
        self.number(value, 8);
        self
    }

    pub fn text(&mut self, text: &[u8]) -> &mut Stream {
        self.bytes.extend(text);
        self.bytes.push(0);
        self
    }

    pub fn klass(&mut self, id: u32, name: &str, fields: u8) -> &mut Stream {
        self.header(2, 1).u32(id).text(name.as_bytes()).u8(fields)
    }

    /// A field of `size` bytes: kind 1 is a klass, 2 text, 3 signed, 4 and 5 floats, 6 a pointer,
    /// 99 unsigned.
    pub fn field(
        &mut self,
        klass: u32,
        kind: u8,
        size: u64,
        type_name: &str,
        name: &str,
    ) -> &mut Stream {
        self.header(3, 1).u32(klass).text(type_name.as_bytes());
        self.text(name.as_bytes()).u64(size).u8(kind)
    }

    /// A klass with these unsigned fields of 8 bytes, derived from `base`.
    pub fn derived(&mut self, id: u32, name: &str, base: &str, fields: &[&str]) -> &mut Stream {
        self.klass(id, name, 1 + fields.len() as u8);
        self.field(id, 1, 24, base, "base");
        for field in fields {
            self.field(id, 99, 8, "uint64_t", field);
        }
        self
    }

    /// The klass that HawkTracer announces first.
    pub fn core(&mut self) -> &mut Stream {
        self.klass(0, "HT_EndiannessInfoEvent", 2);
        self.field(0, 1, 24, "HT_Event", "base");
        self.field(0, 99, 1, "uint8_t", "endianness")
    }

    /// Klasses 4 to 7, as HawkTracer announces them.
    pub fn hawktracer(&mut self) -> &mut Stream {
        self.klass(4, "HT_CallstackBaseEvent", 3);
        self.field(4, 1, 24, "HT_Event", "base");
        self.field(4, 99, 8, "HT_DurationNs", "duration");
        self.field(4, 99, 4, "HT_ThreadId", "thread_id");
        self.derived(
            5,
            "HT_CallstackIntEvent",
            "HT_CallstackBaseEvent",
            &["label"],
        );
        self.klass(6, "HT_CallstackStringEvent", 2);
        self.field(6, 1, 40, "HT_CallstackBaseEvent", "base");
        self.field(6, 2, 8, "const char*", "label");
        self.klass(7, "HT_StringMappingEvent", 3);
        self.field(7, 1, 24, "HT_Event", "base");
        self.field(7, 99, 8, "uint64_t", "identifier");
        self.field(7, 2, 8, "const char*", "label")
    }

    pub fn mapping(&mut self, identifier: u64, label: &str) -> &mut Stream {
        self.header(7, 1).u64(identifier).text(label.as_bytes())
    }

    /// A call with the identifier of its label.
    pub fn call(&mut self, start: u64, duration: u64, thread: u32, label: u64) -> &mut Stream {
        self.header(5, start).u64(duration).u32(thread).u64(label)
    }

    /// A call with its label.
    pub fn named(&mut self, start: u64, duration: u64, thread: u32, label: &str) -> &mut Stream {
        let record = self.header(6, start).u64(duration).u32(thread);
        record.text(label.as_bytes())
    }
}
