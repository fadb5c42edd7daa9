//! The flags: one table, from which parsing and help come. The engine's own options are flags, too.

use std::fmt::Write;

use strandline::{OPTIONS, Options, PRESETS, parse_size};

use crate::config::{Config, Latency};
use crate::data::keys::Form;
use crate::work;

/// One flag.
struct Flag {
    name: &'static str,
    /// What it takes; `true or false` flags may stand without a value.
    takes: &'static str,
    doc: &'static str,
    /// Sets it; `None` if the text is not what it takes.
    set: fn(&mut Config, &str) -> Option<()>,
}

const BOOLEAN: &str = "true or false";
/// The flag that sets many options of the engine at once.
const PRESET: &str = "preset";

const FLAGS: &[Flag] = &[
    Flag {
        name: "benchmarks",
        takes: "names, by comma",
        doc: "What to run, in this order, on one store. Without it: the tour.",
        set: |config, text| {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            let names: Vec<String> = names.map(Into::into).collect();
            put(&mut config.benchmarks, (!names.is_empty()).then_some(names))
        },
    },
    Flag {
        name: "num",
        takes: "count",
        doc: "Keys, and operations per thread (filluniquerandom: of all threads) [1000000].",
        set: |config, text| put(&mut config.num, positive(text)),
    },
    Flag {
        name: "reads",
        takes: "count",
        doc: "Reads per thread, if not num.",
        set: |config, text| put(&mut config.reads, optional(text)),
    },
    Flag {
        name: "writes",
        takes: "count",
        doc: "Writes per thread, if not num.",
        set: |config, text| put(&mut config.writes, optional(text)),
    },
    Flag {
        name: "key_size",
        takes: "bytes",
        doc: "Bytes of a key in number form [16].",
        set: |config, text| put(&mut config.key_size, size(text).filter(|size| *size > 0)),
    },
    Flag {
        name: "value_size",
        takes: "bytes",
        doc: "Bytes of a value [100].",
        set: |config, text| put(&mut config.value_size, size(text)),
    },
    Flag {
        name: "threads",
        takes: "count",
        doc: "Threads that run a benchmark at once, each with all its operations [1].",
        set: |config, text| {
            let threads = positive(text).filter(|threads| *threads <= 1024)?;
            put(&mut config.threads, Some(threads as usize))
        },
    },
    Flag {
        name: "duration",
        takes: "seconds",
        doc: "Run this long rather than a number of operations; 0: by operations.",
        set: |config, text| {
            let seconds: f64 = text.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0)?;
            put(&mut config.duration, Some((seconds > 0.0).then_some(seconds)))
        },
    },
    Flag {
        name: "readwritepercent",
        takes: "0 to 100",
        doc: "Reads among the operations of readrandomwriterandom [90].",
        set: |config, text| {
            let percent: u32 = text.parse().ok()?;
            put(&mut config.readwritepercent, (percent <= 100).then_some(percent))
        },
    },
    Flag {
        name: "batch_size",
        takes: "count",
        doc: "Changes per commit, keys per multi_get; a latency is that of a batch [1].",
        set: |config, text| put(&mut config.batch_size, positive(text).map(|count| count as usize)),
    },
    Flag {
        name: "seed",
        takes: "number",
        doc: "Seed of everything random; 0 is 301, the default.",
        set: |config, text| {
            let seed: u64 = text.parse().ok()?;
            put(&mut config.seed, Some(if seed == 0 { 301 } else { seed }))
        },
    },
    Flag {
        name: "seek_nexts",
        takes: "count",
        doc: "Steps after each seek of seekrandom [0].",
        set: |config, text| put(&mut config.seek_nexts, text.parse().ok()),
    },
    Flag {
        name: "queue_depth",
        takes: "count",
        doc: "Messages in the queue of the benchmark queue [1000].",
        set: |config, text| put(&mut config.queue_depth, text.parse().ok()),
    },
    Flag {
        name: "snapshot",
        takes: BOOLEAN,
        doc: "Hold a snapshot from before each benchmark while it runs [false].",
        set: |config, text| put(&mut config.snapshot, boolean(text)),
    },
    Flag {
        name: "db",
        takes: "folder",
        doc: "Where the store is. Without it: a folder in /dev/shm that is removed at the end.",
        set: |config, text| put(&mut config.db, (!text.is_empty()).then(|| Some(text.into()))),
    },
    Flag {
        name: "use_existing_db",
        takes: BOOLEAN,
        doc: "Keep the store that is there; benchmarks that need a fresh one are skipped [false].",
        set: |config, text| put(&mut config.use_existing_db, boolean(text)),
    },
    Flag {
        name: "write_buffer_size",
        takes: "bytes",
        doc: "db_bench's name of memtable_bytes.",
        set: |config, text| config.engine.set("memtable_bytes", text).ok(),
    },
    Flag {
        name: "statistics",
        takes: BOOLEAN,
        doc: "Print the counters of persistent memory at the end [false].",
        set: |config, text| put(&mut config.statistics, boolean(text)),
    },
    Flag {
        name: "histogram",
        takes: BOOLEAN,
        doc: "Take the latency of every operation and print its distribution [false].",
        set: |config, text| put(&mut config.histogram, boolean(text)),
    },
    Flag {
        name: "latency",
        takes: "false, sampled or true",
        doc: "Latencies of no, of every 16th or of every operation [sampled; true with histogram].",
        set: |config, text| {
            let latency = match text {
                "sampled" => Latency::Sampled,
                _ if boolean(text)? => Latency::Every,
                _ => Latency::Off,
            };
            put(&mut config.latency, Some(Some(latency)))
        },
    },
    Flag {
        name: "json",
        takes: BOOLEAN,
        doc: "Print one JSON object per benchmark and line, and nothing else [false].",
        set: |config, text| put(&mut config.json, boolean(text)),
    },
    Flag {
        name: "keys",
        takes: "number or path",
        doc: "Keys as db_bench makes them, or paths of 40 to 120 bytes with long prefixes in common [number].",
        set: |config, text| {
            let form = match text {
                "number" => Form::Number,
                "path" => Form::Path,
                _ => return None,
            };
            put(&mut config.key_form, Some(form))
        },
    },
    Flag {
        name: "unique",
        takes: BOOLEAN,
        doc: "Random writes take each key once rather than draw with replacement [false].",
        set: |config, text| put(&mut config.unique, boolean(text)),
    },
    Flag {
        name: "verify",
        takes: BOOLEAN,
        doc: "Values tell their key; whole values are compared when read. Of stores that it filled [false].",
        set: |config, text| put(&mut config.verify, boolean(text)),
    },
    Flag {
        name: "pause_probe",
        takes: "seconds",
        doc: "Look for pauses of the machine this long before and after each benchmark [0].",
        set: |config, text| {
            let seconds: f64 = text.parse().ok()?;
            put(&mut config.pause_probe, (0.0..=600.0).contains(&seconds).then_some(seconds))
        },
    },
    Flag {
        name: "fill_bytes",
        takes: "bytes",
        doc: "Bytes of keys and values that the benchmark recovery leaves in memtables [256M].",
        set: |config, text| {
            put(&mut config.fill_bytes, parse_size(text).filter(|bytes| *bytes > 0))
        },
    },
    Flag {
        name: "preset_report",
        takes: "limits",
        doc: "Run what tells the machine's limits beside the engine's: \
              persistlimit,spingap,steps,recovery,overwrite_full.",
        set: |config, text| {
            put(&mut config.preset_report, (text == "limits").then(|| Some(text.into())))
        },
    },
    Flag {
        name: "help",
        takes: BOOLEAN,
        doc: "Print this.",
        set: |config, text| put(&mut config.help, boolean(text)),
    },
];

/// What parsing found wrong but not fatal: flags that are not known.
pub(crate) type Unknown = Vec<String>;

/// Parses `--flag=value`, `--flag value`, `-flag=value`, and `--flag` or `--noflag` where it takes true or
/// false.
///
/// # Errors
/// A value that a flag does not take, and what is no flag at all; in words.
pub(crate) fn parse(args: &[String]) -> Result<(Config, Unknown), String> {
    let (mut config, mut unknown) = (Config::default(), Unknown::new());
    let mut args = args.iter().map(String::as_str).peekable();
    while let Some(arg) = args.next() {
        let Some(body) =
            arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).filter(|b| !b.is_empty())
        else {
            return Err(format!("{arg}: expected a flag such as --num=1000"));
        };
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let (name, value) = match (value, name.strip_prefix("no")) {
            (None, Some(positive)) if takes(positive) == Some(BOOLEAN) => (positive, Some("false")),
            _ => (name, value),
        };
        let Some(takes) = takes(name) else {
            // Its value, if it stands apart, goes with it.
            if value.is_none() {
                args.next_if(|next| !next.starts_with('-'));
            }
            unknown.push(format!("--{name}"));
            continue;
        };
        let value = match value {
            Some(value) => value,
            None if takes == BOOLEAN => {
                args.next_if(|next| boolean(next).is_some()).unwrap_or("true")
            }
            None => args.next().ok_or_else(|| format!("--{name}: a value is missing ({takes})"))?,
        };
        config.given.push((name.into(), value.into()));
    }
    set_all(&mut config)?;
    if let (Some(_), true) = (&config.preset_report, config.benchmarks.is_empty()) {
        config.benchmarks = ["persistlimit", "spingap", "steps", "recovery", "overwrite_full"]
            .map(Into::into)
            .to_vec();
    }
    check(&config)?;
    Ok((config, unknown))
}

/// Sets what was given: a preset first, wherever it stands, so that other flags override it.
fn set_all(config: &mut Config) -> Result<(), String> {
    let given = config.given.clone();
    let (presets, others): (Vec<_>, Vec<_>) = given.iter().partition(|(name, _)| name == PRESET);
    for (_, name) in presets {
        config.engine = Options::preset(name)
            .map_err(|error| format!("--{PRESET}={name}: {}", error.context()))?;
    }
    others.into_iter().try_for_each(|(name, value)| set(config, name, value))
}

fn check(config: &Config) -> Result<(), String> {
    if let Some(name) = config.benchmarks.iter().find(|name| work::find(name).is_none()) {
        let known: Vec<&str> = work::BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        return Err(format!(
            "--benchmarks={name}: no such benchmark; there are {}",
            known.join(", ")
        ));
    }
    Ok(())
}

/// What the flag or option called `name` takes, if there is one.
fn takes(name: &str) -> Option<&'static str> {
    let flag = FLAGS.iter().find(|flag| flag.name == name).map(|flag| flag.takes);
    flag.or_else(|| (name == PRESET).then_some("name"))
        .or_else(|| OPTIONS.iter().find(|row| row.name == name).map(|row| row.unit))
}

fn set(config: &mut Config, name: &str, value: &str) -> Result<(), String> {
    match FLAGS.iter().find(|flag| flag.name == name) {
        Some(flag) => (flag.set)(config, value)
            .ok_or_else(|| format!("--{name}={value}: expected {}", flag.takes)),
        None => {
            config.pm_size_given |= name == "pm_size";
            config.engine.set(name, value).map_err(|error| format!("--{}", error.context()))
        }
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

/// A count, or a negative number for none, as db_bench has it.
fn optional(text: &str) -> Option<Option<u64>> {
    let number: i64 = text.parse().ok()?;
    Some(u64::try_from(number).ok())
}

fn size(text: &str) -> Option<usize> {
    parse_size(text).filter(|size| *size <= 1 << 30).map(|size| size as usize)
}

/// The text of `--help`.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "Workloads with the names, flags and output of RocksDB's db_bench.\n\n\
         usage: strandline bench [--benchmarks=NAMES] [FLAGS]\n\n\
         Without --benchmarks: a tour of one store in about 40 seconds that leaves nothing behind.\n\n\
         benchmarks:\n",
    );
    for benchmark in work::BENCHMARKS {
        let _never_fails = writeln!(text, "  {:<22} {}", benchmark.name, benchmark.doc);
    }
    text.push_str("\nflags (--flag=value, --flag value, -flag=value):\n");
    for flag in FLAGS {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<(Config, Unknown), String> {
        parse(&args.iter().map(|arg| (*arg).to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn flags_come_in_every_usual_form() {
        let args = [
            "--num=5",
            "-value_size=7",
            "--threads",
            "3",
            "--histogram",
            "--nounique",
            "--json",
            "0",
        ];
        let (config, unknown) = parsed(&args).expect("flags");
        assert_eq!((config.num, config.value_size, config.threads), (5, 7, 3));
        assert_eq!((config.histogram, config.unique, config.json), (true, false, false));
        assert!(unknown.is_empty());
        assert_eq!(config.latency(), Latency::Every);
    }

    #[test]
    fn the_engines_options_are_flags() {
        let args =
            ["--write_buffer_size=8M", "--pm_size=32M", "--pm", "heap", "--background_threads=0"];
        let (config, _) = parsed(&args).expect("flags");
        assert_eq!((config.engine.memtable_bytes, config.engine.pm_size), (8 << 20, 32 << 20));
        assert!(config.pm_size_given);
        assert!(parsed(&["--pm_size=much"]).is_err());
    }

    #[test]
    fn flags_override_a_preset_wherever_it_stands() {
        let (config, _) = parsed(&["--subranges=3", "--preset=classic"]).expect("flags");
        assert_eq!((config.engine.subranges, config.engine.pm), (3, strandline::PmSource::Dram));
        let error = parsed(&["--preset=fast"]).expect_err("no preset");
        assert!(error.starts_with("--preset=fast: ") && error.contains("log-free"), "{error}");
    }

    #[test]
    fn unknown_flags_are_named_and_wrong_values_refused() {
        let args = ["--cache_size=5", "--bloom_bits", "10", "--num=5", "--disable_wal"];
        let (config, unknown) = parsed(&args).expect("flags");
        assert_eq!(unknown, ["--cache_size", "--bloom_bits", "--disable_wal"]);
        assert_eq!(config.num, 5);
        for wrong in [
            &["--num=many"][..],
            &["--num=0"],
            &["--num"],
            &["fillseq"],
            &["--benchmarks=fillsequentially"],
            &["--readwritepercent=101"],
            &["--duration=-1"],
            &["--histogram=perhaps"],
            &["--"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn help_names_everything() {
        let text = help();
        for flag in FLAGS {
            assert!(text.contains(&format!("--{}=", flag.name)), "{}", flag.name);
        }
        assert!(text.contains("readwhilewriting") && text.contains("--memtable_bytes="));
    }
}
