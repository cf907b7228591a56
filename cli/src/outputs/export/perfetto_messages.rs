//! The written messages of a Perfetto trace, with their used fields and the fields' numbers. Source:
//! `protos/perfetto/trace/` of github.com/google/perfetto.

use prost::Message;

/// The kinds of events of tracks.
pub(super) mod kind {
    pub(in super::super) const BEGIN: i32 = 1;
    pub(in super::super) const END: i32 = 2;
    pub(in super::super) const INSTANT: i32 = 3;
    pub(in super::super) const COUNTER: i32 = 4;
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(message, optional, tag = "1")]
    pub(super) ftrace_events: Option<Bundle>,
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, tag = "8")]
    pub(super) timestamp: u64,
    #[prost(uint32, tag = "10")]
    pub(super) trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<Interned>,
    #[prost(uint32, tag = "13")]
    pub(super) sequence_flags: u32,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, tag = "1")]
    pub(super) clock_id: u32,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(uint64, tag = "5")]
    pub(super) parent_uuid: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(string, tag = "6")]
    pub(super) process_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(int32, tag = "2")]
    pub(super) tid: i32,
    #[prost(string, tag = "5")]
    pub(super) thread_name: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct CounterDescriptor {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "10")]
    pub(super) name_iid: u64,
    #[prost(uint64, tag = "11")]
    pub(super) track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    #[prost(string, tag = "23")]
    pub(super) name: String,
    #[prost(int64, optional, tag = "30")]
    pub(super) counter_value: Option<i64>,
    #[prost(uint64, tag = "34")]
    pub(super) source_location_iid: u64,
    #[prost(double, optional, tag = "44")]
    pub(super) double_counter_value: Option<f64>,
    #[prost(fixed64, repeated, tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, tag = "48")]
    pub(super) terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Annotation {
    #[prost(bool, optional, tag = "2")]
    pub(super) bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub(super) int_value: Option<i64>,
    #[prost(double, optional, tag = "5")]
    pub(super) double_value: Option<f64>,
    #[prost(string, optional, tag = "6")]
    pub(super) string_value: Option<String>,
    #[prost(string, tag = "10")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Interned {
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<EventName>,
    #[prost(message, repeated, tag = "4")]
    pub(super) source_locations: Vec<SourceLocation>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EventName {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SourceLocation {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(string, tag = "2")]
    pub(super) file_name: String,
    #[prost(string, tag = "3")]
    pub(super) function_name: String,
    #[prost(uint32, tag = "4")]
    pub(super) line_number: u32,
}

/// Events of one CPU.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Bundle {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceEvent {
    #[prost(uint64, tag = "1")]
    pub(super) timestamp: u64,
    #[prost(uint32, tag = "2")]
    pub(super) pid: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) sched_switch: Option<SchedSwitch>,
}

/// Numbers that a reader must find are there even if they are 0.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SchedSwitch {
    #[prost(string, tag = "1")]
    pub(super) prev_comm: String,
    #[prost(int32, optional, tag = "2")]
    pub(super) prev_pid: Option<i32>,
    #[prost(int32, tag = "3")]
    pub(super) prev_prio: i32,
    #[prost(int64, optional, tag = "4")]
    pub(super) prev_state: Option<i64>,
    #[prost(string, tag = "5")]
    pub(super) next_comm: String,
    #[prost(int32, optional, tag = "6")]
    pub(super) next_pid: Option<i32>,
    #[prost(int32, tag = "7")]
    pub(super) next_prio: i32,
}
