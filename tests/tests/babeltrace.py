"""Reads a CTF folder with babeltrace2's own library and prints what it holds as JSON: per thread the
edges, how they nest, and what was discarded; functions and threads by the trace's own facts."""
import json
import sys

import bt2

ENTRY = "lttng_ust_cyg_profile:func_entry"
EXIT = "lttng_ust_cyg_profile:func_exit"


def main(folder):
    threads, functions, facts, events, others = {}, {}, {}, 0, {}
    last = {}

    def thread(stream):
        return threads.setdefault(str(stream.id), {
            "entries": 0, "exits": 0, "synthetic": 0, "unmatched": 0, "open": [], "discarded": 0,
            "calls": {}, "callers": 0,
        })

    for message in bt2.TraceCollectionMessageIterator(folder):
        if type(message) is bt2._DiscardedEventsMessageConst:
            thread(message.stream)["discarded"] += message.count
        if type(message) is not bt2._EventMessageConst:
            continue
        event = message.event
        events += 1
        stream = (event.stream.cls.id, event.stream.id)
        time = message.default_clock_snapshot.value
        assert last.get(stream, 0) <= time, (stream, time)
        last[stream] = time
        if event.name in (ENTRY, EXIT):
            found = thread(event.stream)
            assert event["vtid"] == event.stream.id, "small numbers are the same"
            call(event, found)
        elif event.name == "fdr:function":
            functions[str(int(event["id"]))] = [str(event["name"]), str(event["file"]), int(event["line"])]
        elif event.name == "fdr:thread":
            facts[str(int(event["id"]))] = {key: int(event[key]) for key in (
                "recorded", "readable", "overwritten", "dropped")}
            facts[str(int(event["id"]))]["name"] = str(event["name"])
        else:
            others[event.name] = others.get(event.name, 0) + 1
    json.dump({"events": events, "threads": threads, "functions": functions, "facts": facts,
               "others": others}, sys.stdout)


def call(event, found):
    address, caller = int(event["addr"]), int(event["call_site"])
    synthetic = bool(int(event["flags"]) & 1)
    found["synthetic"] += synthetic
    stack = found["open"]
    if event.name == ENTRY:
        found["entries"] += 1
        found["callers"] += caller == (stack[-1] if stack else 0)
        stack.append(address)
        if not synthetic:
            found["calls"][str(address)] = found["calls"].get(str(address), 0) + 1
    else:
        found["exits"] += 1
        if not stack or stack.pop() != address:
            found["unmatched"] += 1


main(sys.argv[1])
