//! `fdr-fleet query`: SQL over the files that count, by an engine inside of this program. Must never write to the store.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`health`] | files that can't be read are named and left out |
//! | [`visible`] | the files that count, as the engine sees them |
//! | [`reports`] | the views and the queries of `fleet/sql/` |
//! | [`output`], [`prompt`] | answers, and the prompt |

mod health;
mod output;
mod prompt;
mod reports;
mod visible;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use arrow::datatypes::DataType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use fdr_cli::fleet;
use futures::StreamExt;

use self::output::{Format, Output};
use self::visible::Visible;
use crate::manifest::{self, FileEntry};
use crate::schema::{FOLDER, TABLES};
use crate::store::Store;
use crate::{Status, complain};

/// The store of the files that count has this name inside the engine.
const INSIDE: &str = "fleet://files";

/// Ask questions over all traces of a folder or a bucket, in SQL
///
/// Without SQL and without --report: a prompt. docs/fleet.md has the tables.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder, or s3://BUCKET/PREFIX (AWS_… variables)
    #[arg(value_name = "PLACE")]
    place: String,
    /// One statement
    #[arg(value_name = "SQL", conflicts_with = "report")]
    sql: Option<String>,
    /// top, slow, regressions, hosts or losses; `list` tells their parameters
    #[arg(long, value_name = "NAME")]
    report: Option<String>,
    /// A parameter of the report; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", requires = "report")]
    set: Vec<String>,
    /// What the answer looks like: table, csv, json or parquet
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "table",
        hide_possible_values = true
    )]
    format: Format,
    /// Write the answer to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The most threads that work [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = crate::jobs_of)]
    jobs: Option<NonZeroUsize>,
    /// The most memory for sorting and grouping; the rest goes to temporary files
    #[arg(long, value_name = "SIZE", value_parser = crate::size_of, default_value = "1G")]
    max_memory: u64,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    fleet::prepare(options.max_memory, options.jobs);
    let sql = match (&options.report, &options.sql) {
        (Some(report), _) if report == "list" => {
            print!("{}", reports::list());
            return Ok(Status::Done);
        }
        (Some(report), _) => Some(reports::query(report, &options.set)?),
        (None, sql) => sql.clone(),
    };
    let engine = Engine::open(&options.place, options.max_memory)?;
    match sql {
        Some(sql) => engine.answer(&sql, options.format, options.output.as_deref())?,
        None if options.output.is_some() => bail!("-o is for one statement or --report"),
        None => prompt::run(&engine, options.format)?,
    }
    Ok(engine.status())
}

/// The engine, and the store that it reads.
pub(crate) struct Engine {
    store: Store,
    max_memory: u64,
    state: Mutex<State>,
}

struct State {
    context: SessionContext,
    files: Vec<FileEntry>,
    status: Status,
}

impl Engine {
    fn open(place: &str, max_memory: u64) -> anyhow::Result<Engine> {
        let store = Store::open(place, false)?;
        let days = manifest::read(&store)?;
        let (files, problems) = health::check(&store, &days)?;
        problems.iter().for_each(|problem| complain(problem));
        if files.is_empty() {
            let none = if problems.is_empty() {
                "there are no traces in it: fdr-fleet export makes some"
            } else {
                "nothing in it can be read"
            };
            bail!("{}: {none}", store.name);
        }
        let context = context(&store, &files, max_memory)?;
        let status = if problems.is_empty() {
            Status::Done
        } else {
            Status::LeftOut
        };
        let state = Mutex::new(State {
            context,
            files,
            status,
        });
        Ok(Engine {
            store,
            max_memory,
            state,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.store.name
    }

    fn status(&self) -> Status {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .status
    }

    /// Runs a statement. A file that can't be decoded is named and left out, unless rows were already given.
    pub(crate) fn answer(
        &self,
        sql: &str,
        format: Format,
        file: Option<&Path>,
    ) -> anyhow::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (given, error) = match self.once(&state.context, sql, format, file) {
            (_, Ok(())) => return Ok(()),
            (given, Err(error)) => (given, error),
        };
        if error.downcast_ref::<Planning>().is_some() {
            return Err(error);
        }
        let (bad, problems) = health::check_all(&self.store, &state.files)?;
        if bad.is_empty() {
            return Err(error);
        }
        problems.iter().for_each(|problem| complain(problem));
        state.files.retain(|file| !bad.contains(&file.path));
        state.status = Status::LeftOut;
        state.context = context(&self.store, &state.files, self.max_memory)?;
        if given {
            return Err(error.context("the answer is not complete: run it again"));
        }
        self.once(&state.context, sql, format, file).1
    }

    /// Also returns whether rows were given.
    fn once(
        &self,
        context: &SessionContext,
        sql: &str,
        format: Format,
        file: Option<&Path>,
    ) -> (bool, anyhow::Result<()>) {
        let mut given = false;
        let done = self.store.runtime.block_on(async {
            // The store is the export's alone.
            let allowed = SQLOptions::new()
                .with_allow_ddl(false)
                .with_allow_dml(false);
            let frame = context
                .sql_with_options(sql, allowed.with_allow_statements(false))
                .await;
            let frame = frame.map_err(|error| anyhow::Error::new(error).context(Planning))?;
            let schema = Arc::new(frame.schema().as_arrow().clone());
            let mut output = Output::new(format, file, schema)?;
            let mut stream = frame.execute_stream().await?;
            while let Some(batch) = stream.next().await {
                output.write(&batch?)?;
                given |= output.rows > 0 && format != Format::Table && file.is_none();
            }
            output.finish()
        });
        (given, done)
    }
}

/// The statement itself is wrong.
#[derive(Debug)]
struct Planning;

impl std::fmt::Display for Planning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this statement can't be run")
    }
}

/// An engine that has the tables and views.
fn context(store: &Store, files: &[FileEntry], max_memory: u64) -> anyhow::Result<SessionContext> {
    let memory = FairSpillPool::new(usize::try_from(max_memory).unwrap_or(usize::MAX));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(memory))
        .build_arc()?;
    let inside = url::Url::parse(INSIDE)?;
    let visible = Visible::new(store.objects.clone(), files.iter());
    runtime.register_object_store(&inside, Arc::new(visible));
    let mut config = SessionConfig::new()
        .with_target_partitions(fleet::jobs())
        .with_information_schema(true);
    let parquet = &mut config.options_mut().execution.parquet;
    parquet.pushdown_filters = true;
    let state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_runtime_env(runtime)
        .build();
    let context = SessionContext::new_with_state(state);
    for table in TABLES {
        let url = ListingTableUrl::parse(format!("{INSIDE}/{FOLDER}/{}/", table.name))?;
        let partitions = ["date", "host"].map(|name| (name.to_owned(), DataType::Utf8));
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
            .with_file_extension(".parquet")
            .with_table_partition_cols(partitions.to_vec());
        let listing = ListingTableConfig::new(url)
            .with_listing_options(options)
            .with_schema(table.schema());
        let provider = ListingTable::try_new(listing)?;
        context.register_table(format!("raw_{}", table.name), Arc::new(provider))?;
    }
    store.runtime.block_on(async {
        for (name, sql) in reports::VIEWS {
            let frame = context
                .sql(sql)
                .await
                .with_context(|| format!("the view {name}"))?;
            context.register_table(name, frame.into_view())?;
        }
        Ok(context)
    })
}
