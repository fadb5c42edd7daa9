//! The commands, one file each.

mod advise;
pub mod bench;
mod check;
mod checkpoint;
mod compact;
mod completions;
mod condition;
mod convert;
mod create;
mod del;
mod delete_range;
mod destroy;
mod dump;
mod explain;
mod export;
mod flush;
mod get;
mod help;
mod import;
mod ingest;
mod keyspace;
mod load;
mod locks;
mod lsm;
mod man;
mod manifest;
mod merge;
mod pool;
mod prepared;
mod put;
mod repair;
mod reproduce;
mod scan;
mod set_option;
mod sst;
mod stats;
mod streams;
mod top;
mod watch;
mod zone;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Outcome;

/// What can be asked for.
#[derive(Subcommand)]
pub enum Command {
    /// Make an empty store
    Create,
    /// Set a key to a value
    Put(put::PutArgs),
    /// Print the value of a key
    Get(get::GetArgs),
    /// Merge an operand into the value of a key, by the merge operator of its keyspace
    Merge(merge::MergeArgs),
    /// Delete a key; it need not be there
    Del(del::DelArgs),
    /// Delete the keys from BEGIN up to before END, by one record
    #[command(after_help = "\
As in RocksDB an empty range (END is BEGIN) deletes nothing, and there is no END behind all keys: to delete all of them
drop the keyspace, or name an END that is greater than the last key.")]
    DeleteRange(delete_range::DeleteRangeArgs),
    /// Print keys and values in order
    Scan(scan::ScanArgs),
    /// Load records from lines of text
    Load(load::LoadArgs),
    /// Print all records of a keyspace so that load takes them
    Dump(dump::DumpArgs),
    /// Print all keyspaces with their records so that load --format export makes them again, or make a database of RocksDB
    Export(export::ExportArgs),
    /// Print figures about the store
    Stats(stats::StatsArgs),
    /// Draw the store as it runs: throughput, stalls, levels, space, background work
    Top(top::TopArgs),
    /// Print what commits change, as a change stream gives it, and acknowledge it
    #[command(after_help = "\
A line for each change: number, keyspace, what, key, value; with --json an object for each commit. What is printed is
acknowledged, and comes no more; what was not acknowledged when the command ends comes again. Where another process has the
store open with the option inspect, that is asked; else the store is opened, and closed again once all is printed.")]
    Watch(watch::WatchArgs),
    /// Print the change streams of the store and how far each is, or drop one
    Streams(streams::StreamsArgs),
    /// Print what the pool says of itself: superblock, log, map of the zones
    Pool,
    /// Print the locks of transactions in the process that has the store open, and the latest deadlocks
    Locks(locks::LocksArgs),
    /// List prepared transactions, or end one
    Prepared(prepared::PreparedArgs),
    /// Draw where each keyspace has its data: memtables, runs, levels
    Lsm(lsm::LsmArgs),
    /// Print what the manifest names: keyspaces, runs, tables, zones
    Manifest,
    /// Print what a table in RocksDB's format says of itself; no store is needed
    Sst(sst::SstArgs),
    /// Flush the memtables of all keyspaces into index runs
    Flush,
    /// Bring keys down to the deepest level that has any of them
    Compact(compact::CompactArgs),
    /// Copy the store as of this moment to a new directory, by links where that works
    Checkpoint(checkpoint::CheckpointArgs),
    /// Add tables in RocksDB's format, all of them or none
    Ingest(ingest::IngestArgs),
    /// Make a new store of a database of RocksDB
    Import(import::ImportArgs),
    /// Copy what can be read of a damaged store to a new one; exit code 1 if anything was lost
    Repair(repair::RepairArgs),
    /// Move the store to the memory that --pm says: dram (with a log), a path (a pool there), or auto, what its directory can do
    Convert,
    /// Remove a store that no process has open, with everything in it; files that are not its own stay
    Destroy(destroy::DestroyArgs),
    /// Print the headers of the zones, or of one
    Zone(zone::ZoneArgs),
    /// Verify every record and index; exit code 1 if anything is damaged
    Check,
    /// Show how a look-up goes: each probe, where it went and what it took
    Explain(explain::ExplainArgs),
    /// Change options of a store that another process has open with the option inspect; they hold until it is closed
    #[command(after_help = "\
Of several settings those before one that is refused are made.")]
    SetOption(set_option::SetOptionArgs),
    /// List, create or drop keyspaces
    Keyspace(keyspace::KeyspaceArgs),
    /// Repeat an experiment of a paper on this machine; no store is needed
    Reproduce(reproduce::ReproduceArgs),
    /// Find out how much DRAM and persistent memory should cache the data of a trace, at your prices; no store is needed
    #[command(after_help = "\
The miss-ratio curve comes from a sample of keys (SHARDS, FAST 2015). Devices are models: --pm-model [optane-100x6-delta] and
--ssd-model [nvme-tlc], see help options. Exit code 1: no split reaches the goal.")]
    Advise(advise::AdviseArgs),
    /// Run db_bench workloads; it has flags of its own, and those of the store (try: strandline bench --help)
    #[command(disable_help_flag = true)]
    Bench(bench::BenchArgs),
    /// Print a script by which a shell completes this command
    Completions(completions::CompletionsArgs),
    /// Print the manual page of a command, or write those of all commands
    Man(man::ManArgs),
    /// Show the help of a command, or the options of the store: help options
    #[command(disable_help_flag = true)]
    Help(help::HelpArgs),
}

/// The command line as data, for commands that describe it.
pub struct CommandLine {
    /// As it was parsed: options of the store are hidden.
    pub parsed: clap::Command,
    /// With each option that a command takes, those of `bench` included.
    pub complete: fn() -> clap::Command,
    /// For manual pages: options of `bench` are shown, those of the store have a page of their own.
    pub pages: fn() -> Vec<clap::Command>,
}

/// Carries out `command`, one of those of the command line `whole`.
pub fn run(context: &Context, command: Command, mut whole: CommandLine) -> Outcome {
    match command {
        Command::Create => create::run(context),
        Command::Put(args) => put::run(context, &args),
        Command::Get(args) => get::run(context, &args),
        Command::Merge(args) => merge::run(context, &args),
        Command::Del(args) => del::run(context, &args),
        Command::Scan(args) => scan::run(context, &args),
        Command::Load(args) => load::run(context, args),
        Command::Dump(args) => dump::run(context, &args),
        Command::Export(args) => export::run(context, &args),
        Command::Stats(args) => stats::run(context, &args),
        Command::Top(args) => top::run(context, &args),
        Command::Watch(args) => watch::run(context, &args),
        Command::Streams(args) => streams::run(context, &args),
        Command::Pool => pool::run(context),
        Command::Prepared(args) => prepared::run(context, &args),
        Command::Locks(args) => locks::run(context, &args),
        Command::Lsm(args) => lsm::run(context, &args),
        Command::Manifest => manifest::run(context),
        Command::Sst(args) => sst::run(context, &args),
        Command::DeleteRange(args) => delete_range::run(context, &args),
        Command::Flush => flush::run(context),
        Command::Compact(args) => compact::run(context, &args),
        Command::Checkpoint(args) => checkpoint::run(context, &args),
        Command::Ingest(args) => ingest::run(context, &args),
        Command::Import(args) => import::run(context, &args),
        Command::Repair(args) => repair::run(context, &args),
        Command::Convert => convert::run(context),
        Command::Destroy(args) => destroy::run(context, &args),
        Command::Zone(args) => zone::run(context, &args),
        Command::Check => check::run(context),
        Command::Explain(args) => explain::run(context, &args),
        Command::SetOption(args) => set_option::run(context, &args),
        Command::Keyspace(args) => keyspace::run(context, &args),
        Command::Reproduce(args) => reproduce::run(context, &args),
        Command::Advise(args) => advise::run(context, &args),
        Command::Bench(args) => bench::run(args.args),
        Command::Completions(args) => completions::run(context, &args, (whole.complete)()),
        Command::Man(args) => man::run(context, &args, (whole.pages)()),
        Command::Help(args) => help::run(context, &args, &mut whole.parsed),
    }
}
