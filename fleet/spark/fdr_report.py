"""The reports and views of fleet/sql on Spark: the same files as `fdr-fleet query`, unchanged.

    spark-submit fdr_report.py PLACE --report top --set limit=10
    spark-submit fdr_report.py PLACE --sql "SELECT host, COUNT(*) FROM spans GROUP BY host"

A place is a folder, or any address that Spark's Hadoop libraries know (such as s3a://BUCKET/PREFIX). Only the files
that commits and manifests list are read. Rows go to standard output as CSV. A file that is missing or cut short, and a
commit of another schema version, is named on stderr and left out, and the exit code is 1. Must never write to the
place.
"""

import argparse
import csv
import json
import os
import re
import sys

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

FOLDER = "v1"
SCHEMA = 1
TRIES = 10
SQL = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "sql")
# In the order in which they build on each other.
VIEWS = (
    "thread_ranges overlapping counted_traces spans events function_stats function_lengths functions threads processes"
    " hosts traces losses"
).split()


class Place:
    """A folder, as Hadoop's libraries see it."""

    def __init__(self, spark, name):
        self.jvm = spark.sparkContext._jvm
        path = self.jvm.org.apache.hadoop.fs.Path(name)
        self.files = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self.root = self.files.makeQualified(path).toString().rstrip("/")

    def path(self, name):
        return self.jvm.org.apache.hadoop.fs.Path(f"{self.root}/{name}")

    def sizes(self, name):
        """All files below a folder: their paths from the root, and their sizes."""
        found = {}
        if not self.files.exists(self.path(name)):
            return found
        listed = self.files.listFiles(self.path(name), True)
        while listed.hasNext():
            status = listed.next()
            found[status.getPath().toString()[len(self.root) + 1 :]] = status.getLen()
        return found

    def text(self, name):
        """What is in a file; None: it went away meanwhile."""
        try:
            stream = self.files.open(self.path(name))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "FileNotFoundException":
                return None
            raise
        try:
            return self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()


def entries(place, problems):
    """The files that count: the newest manifest of each day, and the commits that it does not cover."""
    for _ in range(TRIES):
        found = entries_once(place)
        if found is not None:
            files, new = found
            problems += new
            return files
    sys.exit(f"{place.root}: it changes faster than it can be read: try again")


def entries_once(place):
    # Commits before manifests, so that a commit is seen at least once.
    pattern = re.compile(r".*/date=([^/]*)/([^/]*)\.json")
    listed = [place.sizes(f"{FOLDER}/{name}") for name in ("_commits", "_manifest")]
    commits, manifests = ([found for found in map(pattern.fullmatch, paths) if found] for paths in listed)
    newest = {}
    for found in manifests:
        date, name = found.groups()
        if name.isascii() and name.isdigit():
            newest[date] = max(newest.get(date, (-1, "")), (int(name), found.group()))
    files, problems, covers = [], [], {}

    def read(path, date):
        text = place.text(path)
        if text is None:
            return None
        try:
            listing = json.loads(text)
            if listing["schema"] != SCHEMA:
                raise ValueError(f"schema version {listing['schema']}: this program knows version {SCHEMA}")
            part = [(file["path"], int(file["bytes"])) for file in listing["files"]]
            covered = set(listing.get("covers", []))
        except (ValueError, KeyError, TypeError) as error:
            problems.append(f"{place.root}/{path}: {error}: what it lists is left out")
            covers.setdefault(date, None)
            return True
        files.extend(part)
        covers.setdefault(date, covered)
        return True

    for date, (_, path) in newest.items():
        if read(path, date) is None:
            return None
    for found in commits:
        date, name = found.groups()
        covered = covers[date] if date in newest else set()
        # A day whose manifest can't be read is left out: its commits may be in it.
        if covered is None or name in covered:
            continue
        if read(found.group(), date) is None:
            return None
    return files, problems


def register(spark, place_name):
    """Makes the tables and views of a place. Returns what is wrong with files that are left out."""
    place = Place(spark, place_name)
    problems, tables = [], {}
    with open(os.path.join(SQL, "tables.json"), encoding="utf-8") as file:
        schemas = json.load(file)
    for path, size in entries(place, problems):
        table = path.split("/")[1] if path.startswith(f"{FOLDER}/") else None
        if table not in schemas:
            problems.append(f"{place.root}/{path}: it is of no table of this version: its rows are left out")
            continue
        tables.setdefault(table, []).append((path, size))
    for table, schema in schemas.items():
        sizes, good = place.sizes(f"{FOLDER}/{table}"), []
        for path, size in tables.get(table, []):
            if sizes.get(path) == size:
                good.append(f"{place.root}/{path}")
                continue
            what = "no such file, but a commit lists it"
            if path in sizes:
                what = f"it has {sizes[path]} bytes, and its commit says {size}: it is damaged or cut short"
            problems.append(f"{place.root}/{path}: {what}: its rows are left out")
        schema += ", date STRING, host STRING"
        if good:
            reader = spark.read.schema(schema).option("basePath", f"{place.root}/{FOLDER}/{table}")
            frame = reader.parquet(*good)
        else:
            frame = spark.createDataFrame([], schema)
        frame.createOrReplaceTempView(f"raw_{table}")
    for view in VIEWS:
        with open(os.path.join(SQL, "views", f"{view}.sql"), encoding="utf-8") as file:
            spark.sql(file.read()).createOrReplaceTempView(view)
    return problems


def report(name, settings):
    """The query of a report, with `NAME=VALUE` settings."""
    names = sorted(file[: -len(".sql")] for file in os.listdir(os.path.join(SQL, "reports")))
    if name not in names:
        sys.exit(f"{name}: no such report: there are {', '.join(names)}")
    with open(os.path.join(SQL, "reports", f"{name}.sql"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    values = dict(re.findall(r"^-- :(\w+) = (.*?) \|", "\n".join(lines), re.MULTILINE))
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in values:
            sys.exit(f"--set {setting}: {name} has the parameters {', '.join(values)}: NAME=VALUE")
        if values[key].startswith("'"):
            values[key] = "'" + value.replace("\\", "").replace("'", "\\'") + "'"
        elif re.fullmatch(r"-?[0-9]+", value):
            values[key] = value
        else:
            sys.exit(f"--set {setting}: not a number")
    text = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
    return re.sub(r":(\w+)", lambda found: values.get(found[1], found[0]), text)


def session():
    builder = SparkSession.builder.appName("fdr_report")
    # Folders say days and names; both are texts.
    builder = builder.config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    return builder.getOrCreate()


def written(frame, file):
    """Writes rows as CSV, as `fdr-fleet query --format csv` does."""

    def cell(value):
        if value is None:
            return ""
        return str(value).lower() if isinstance(value, bool) else value

    out = csv.writer(file, lineterminator="\n")
    out.writerow(frame.columns)
    for row in frame.toLocalIterator():
        out.writerow([cell(value) for value in row])


def main():
    parser = argparse.ArgumentParser(prog="fdr_report.py", description="fdr's reports and SQL over traces, on Spark")
    parser.add_argument("place", help="a folder, or an address such as s3a://BUCKET/PREFIX")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--report", metavar="NAME", help="top, slow, regressions, hosts or losses")
    what.add_argument("--sql", metavar="SQL", help="one statement")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a parameter of the report")
    options = parser.parse_args()
    sql = report(options.report, options.set) if options.report else options.sql
    spark = session()
    problems = register(spark, options.place)
    for problem in problems:
        # spark-submit puts this process's stderr into its own stdout, among the rows; its Java writes to its stderr.
        spark.sparkContext._jvm.java.lang.System.err.println(f"fdr_report: {problem}")
    written(spark.sql(sql), sys.stdout)
    sys.stdout.flush()
    spark.stop()
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
