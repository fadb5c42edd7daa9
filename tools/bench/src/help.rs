//! The text of `--help`.

use std::fmt::Write;

use strandline::{OPTIONS, PRESETS};

use crate::flags::{
    FLAGS, MAPPED, MIX, MIX_FLAGS, MIXES, OPTION, OPTION_TAKES, PRESET, YCSB_FLAGS,
};
use crate::work;

/// The text of `--help`.
pub(crate) fn text() -> String {
    let mut text = String::from(
        "Workloads with the names, flags and output of RocksDB's db_bench.\n\n\
         usage: strandline bench [--benchmarks=NAMES] [FLAGS]\n\n\
         Without --benchmarks: a tour of one store in less than a minute. It leaves nothing behind.\n\n",
    );
    text.push_str(&benchmarks());
    text.push_str("\nflags (--flag=value, --flag value, -flag=value):\n");
    for flag in FLAGS {
        let _never_fails = writeln!(text, "  --{}=<{}>\n      {}", flag.name, flag.takes, flag.doc);
    }
    text.push_str("\nflags of mixgraph, those of db_bench but for mix and the ratios of deletes and merges:\n");
    let _never_fails =
        writeln!(text, "  --{MIX}=<name>\n      A mix by name, which other flags override.");
    for mix in MIXES {
        let flags = mix.flags.iter().map(|(name, value)| format!("--{name}={value}"));
        let flags = flags.collect::<Vec<_>>().join(" ");
        let _never_fails = writeln!(text, "      {}: {}:\n        {flags}", mix.name, mix.doc);
    }
    for flag in MIX_FLAGS {
        let _never_fails = writeln!(text, "  --{}=<{}>\n      {}", flag.name, flag.takes, flag.doc);
    }
    text.push_str("\nflags of YCSB's workloads:\n");
    for flag in YCSB_FLAGS {
        let _never_fails = writeln!(text, "  --{}=<{}>\n      {}", flag.name, flag.takes, flag.doc);
    }
    text.push_str(
        "\nflags of db_bench that set options of the engine (others are refused, or ignored with \
         --ignore_unknown_flags):\n",
    );
    for flag in MAPPED {
        let _never_fails = writeln!(text, "  --{}=<{}>\n      {}", flag.name, flag.takes, flag.doc);
    }
    text.push_str("\nflags of the engine:\n");
    let presets = PRESETS.iter().map(|preset| format!("{}: {}", preset.name, preset.doc));
    let presets: Vec<String> = presets.collect();
    let _never_fails = writeln!(
        text,
        "  --{PRESET}=<name>\n      Options of a system, which the others override.\n      {}",
        presets.join("\n      ")
    );
    let _never_fails = writeln!(
        text,
        "  --{OPTION}=<{OPTION_TAKES}>\n      Sets an option of the engine by its name, as --NAME=VALUE does."
    );
    for row in OPTIONS {
        let (name, unit, default) = (row.name, row.unit, row.default);
        let _never_fails = writeln!(text, "  --{name}=<{unit}> [{default}]\n      {}", row.doc);
    }
    text.push_str(
        "\ninstructions per operation, which do not depend on how busy the machine is:\n  \
         valgrind --tool=callgrind strandline bench --benchmarks=fillrandom --num=100000 --latency=false\n  \
         perf stat -e instructions:u strandline bench --benchmarks=fillrandom --latency=false\n",
    );
    text
}

/// The benchmarks, a line each.
pub(crate) fn benchmarks() -> String {
    let mut text = String::from("benchmarks:\n");
    for benchmark in work::BENCHMARKS {
        let _never_fails = writeln!(text, "  {:<22} {}", benchmark.name, benchmark.doc);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_everything() {
        let text = super::text();
        for flag in FLAGS.iter().chain(MIX_FLAGS).chain(YCSB_FLAGS).chain(MAPPED) {
            assert!(text.contains(&format!("--{}=", flag.name)), "{}", flag.name);
        }
        assert!(text.contains("readwhilewriting") && text.contains("--memtable_bytes="));
    }
}
