//! The command line of benchmarks, parsed. The options of the engine are flags, too.

mod table;

use strandline::{OPTIONS, Options};

use crate::config::Config;
use table::{BOOLEAN, boolean};
pub(crate) use table::{FLAGS, PRESET};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Latency;

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
            &["--readwritepercent=101"],
            &["--duration=-1"],
            &["--histogram=perhaps"],
            &["--"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
