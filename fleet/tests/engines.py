"""Runs each query of a list on Spark and by fdr-fleet, and compares the answers row by row.

Run by tests/engines.rs: spark-submit engines.py PLACE FLEET BEFORE FROM DAMAGED. `regressions` compares the days until
BEFORE with those from FROM. Prints how long each engine took for each query. Exits with 1 at the first difference. Then
runs fdr_report.py on the place DAMAGED, and prints its exit code.
"""

import csv
import io
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "spark"))
import fdr_report

REPORTS = "top slow hosts losses".split()
TABLES = "spans events function_stats function_lengths functions threads processes hosts traces losses".split()


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def same(one, other):
    """Numbers with a fraction may be written in other ways, but are the same to the last bit."""
    if one == other:
        return True
    if not all(set(text) & set(".eE") for text in (one, other)):
        return False
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def wanted(before, after):
    """The queries: a name, the SQL for Spark, and the words for fdr-fleet."""
    reports = [(name, []) for name in REPORTS]
    reports.append(("regressions", [f"before_until={before}", f"from={after}", "calls=1"]))
    reports.append(("top", ["program=a'p_%", "limit=3"]))
    for name, settings in reports:
        words = [word for setting in settings for word in ("--set", setting)]
        yield f"report {name}", fdr_report.report(name, settings), ["--report", name, *words]
    for table in [*TABLES, *(f"raw_{table}" for table in TABLES)]:
        sql = f"SELECT * FROM {table}"
        yield table, sql, [sql]


def main():
    place, fleet, before, after, damaged = sys.argv[1:]
    begun = time.monotonic()
    spark = fdr_report.session()
    print(f"Spark's session began in {time.monotonic() - begun:.2f} s")
    begun = time.monotonic()
    if problems := fdr_report.register(spark, place):
        sys.exit("\n".join(problems))
    print(f"tables and views were made in {time.monotonic() - begun:.2f} s")
    all_spark = all_embedded = 0
    for name, sql, words in wanted(before, after):
        begun = time.monotonic()
        text = io.StringIO()
        fdr_report.written(spark.sql(sql), text)
        on_spark = time.monotonic() - begun
        begun = time.monotonic()
        command = [fleet, "query", place, *words, "--format", "csv"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        embedded = time.monotonic() - begun
        one, other = rows(text.getvalue()), rows(done.stdout)
        # The columns of `SELECT *` may be in another order.
        names = other[0]
        if sorted(one[0]) != sorted(names):
            sys.exit(f"{name}: columns {one[0]} and {names}")
        order = [one[0].index(column) for column in names]
        one = [[row[nth] for nth in order] for row in one[1:]]
        other = other[1:]
        if not name.startswith("report"):
            one.sort()
            other.sort()
        if len(one) != len(other):
            sys.exit(f"{name}: {len(one)} rows on Spark, and {len(other)} by fdr-fleet")
        for nth, (left, right) in enumerate(zip(one, other)):
            if len(left) != len(right) or not all(map(same, left, right)):
                sys.exit(f"{name}: row {nth}: {left} on Spark, and {right} by fdr-fleet")
        print(f"{name}: {len(one)} rows are equal; Spark {on_spark:.2f} s, fdr-fleet {embedded:.2f} s")
        all_spark += on_spark
        all_embedded += embedded
    print(f"all queries: Spark {all_spark:.2f} s, fdr-fleet {all_embedded:.2f} s")
    # It finds this session, and ends it.
    sys.argv[1:] = [damaged, "--sql", "SELECT host, COUNT(*) AS calls FROM spans GROUP BY host"]
    try:
        fdr_report.main()
    except SystemExit as end:
        print(f"exit code {end.code}")


main()
