//! What was measured, by one command or by several, one after the other: they add to one file, and the newest that ran a
//! benchmark is the one that counts.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::engines::Result;
use crate::limits::Limits;
use crate::sample::{CaseKey, Sample};
use crate::wire;

/// One command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Command {
    /// As it was given.
    pub words: String,
    /// Facts about the machine.
    pub facts: Vec<(String, String)>,
    /// What the machine allowed.
    pub limits: Limits,
}

/// What commands found.
#[derive(Debug, Default)]
pub struct Kept {
    /// A line for each thing that is added.
    file: Option<PathBuf>,
    /// In the order in which they ran.
    pub commands: Vec<Command>,
    /// With the number of the command.
    pub samples: Vec<(usize, Sample)>,
    /// What failed in which benchmark, with the number of the command.
    pub failures: Vec<(usize, CaseKey, String)>,
}

impl Kept {
    /// With what is in `file`, if one is named and there.
    ///
    /// # Errors
    /// It cannot be read, or a line of it is not understood.
    pub fn open(file: Option<PathBuf>) -> Result<Kept> {
        let mut kept = Kept::default();
        if let Some(path) = &file {
            let shown = path.display();
            let text = match std::fs::read_to_string(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
                read => read.map_err(|error| format!("--into={shown}: {error}"))?,
            };
            for (number, line) in text.lines().enumerate() {
                let value = serde_json::from_str(line).ok();
                value.and_then(|value| kept.take(&value)).ok_or_else(|| {
                    format!("--into={shown}: line {} is of no figures; name another", number + 1)
                })?;
            }
        }
        kept.file = file;
        Ok(kept)
    }

    fn take(&mut self, value: &Value) -> Option<()> {
        if let Some(command) = value.get("command") {
            self.commands.push(to_command(command)?);
            return Some(());
        }
        let last = self.commands.len().checked_sub(1)?;
        if let Some(failure) = value.get("failure") {
            let text = failure.as_str()?.to_string();
            self.failures.push((last, wire::to_key(&value["of"])?, text));
        } else {
            self.samples.push((last, wire::to_sample(value)?));
        }
        Some(())
    }

    /// Begins with what a new command finds.
    pub fn begin(&mut self, command: Command) -> Result<()> {
        self.write(&json!({ "command": of_command(&command) }))?;
        self.commands.push(command);
        Ok(())
    }

    /// Adds a sample of the newest command.
    pub fn add(&mut self, sample: Sample) -> Result<()> {
        self.write(&wire::of_sample(&sample))?;
        self.samples.push((self.commands.len().saturating_sub(1), sample));
        Ok(())
    }

    /// Adds what failed in `case` of the newest command.
    pub fn fail(&mut self, case: CaseKey, text: String) -> Result<()> {
        self.write(&json!({ "failure": text, "of": wire::of_key(case) }))?;
        self.failures.push((self.commands.len().saturating_sub(1), case, text));
        Ok(())
    }

    /// Leaves out what a newer command measured again.
    pub fn newest(mut self) -> Kept {
        let mut newest: HashMap<CaseKey, usize> = HashMap::new();
        let samples = self.samples.iter().map(|(command, sample)| (sample.key(), *command));
        let failures = self.failures.iter().map(|(command, case, _)| (*case, *command));
        for (case, command) in samples.chain(failures) {
            let last = newest.entry(case).or_default();
            *last = (*last).max(command);
        }
        self.samples.retain(|(command, sample)| newest.get(&sample.key()) == Some(command));
        self.failures.retain(|(command, case, _)| newest.get(case) == Some(command));
        self
    }

    fn write(&self, value: &Value) -> Result<()> {
        let Some(path) = &self.file else { return Ok(()) };
        let mut line = value.to_string();
        line.push('\n');
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(|error| format!("--into={}: {error}", path.display()))
    }
}

fn of_command(command: &Command) -> Value {
    json!({
        "words": command.words,
        "facts": command.facts,
        "persist_ns": command.limits.persist_ns,
        "read_us": command.limits.read_us,
    })
}

fn to_command(value: &Value) -> Option<Command> {
    let text = |value: &Value| value.as_str().map(String::from);
    let facts = value["facts"].as_array()?.iter();
    let persist = &value["persist_ns"];
    Some(Command {
        words: text(&value["words"])?,
        facts: facts.map(|fact| text(&fact[0]).zip(text(&fact[1]))).collect::<Option<_>>()?,
        limits: Limits {
            persist_ns: persist[0].as_f64().zip(persist[1].as_f64()).map(|(a, b)| [a, b]),
            read_us: value["read_us"].as_f64(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::Rate;
    use crate::promise::Promise;
    use crate::sample::Load;
    use crate::stages;
    use crate::work::Measured;
    use bench::data::draw::Draw;

    fn sample(name: &str, ops: u64) -> Sample {
        let (stage, case) = stages::find(name, 1, 100).unwrap();
        Sample {
            engine: "fjall",
            run: 0,
            stage,
            case,
            load: Load::default(),
            keys: 1,
            promise: Promise::Synced,
            durability: "synced".into(),
            measured: Measured { rate: Rate { ops, seconds: 1.0 }, ..Measured::default() },
        }
    }

    #[test]
    fn the_newest_command_that_ran_a_benchmark_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures");
        let limits = Limits { persist_ns: Some([1.0, 2.0]), read_us: Some(3.0) };
        let facts = vec![("cores".to_string(), "2".to_string())];
        let command = |words: &str| Command { words: words.into(), facts: facts.clone(), limits };
        let mut kept = Kept::open(Some(path.clone())).unwrap();
        kept.begin(command("first")).unwrap();
        kept.add(sample("disk-sync", 1)).unwrap();
        kept.add(sample("disk-fill", 2)).unwrap();
        kept.fail(sample("disk-sync", 1).key(), "no".into()).unwrap();
        let mut kept = Kept::open(Some(path.clone())).unwrap();
        assert_eq!(kept.failures.len(), 1);
        kept.begin(command("second")).unwrap();
        kept.add(sample("disk-sync", 3)).unwrap();
        let kept = Kept::open(Some(path.clone())).unwrap().newest();
        assert_eq!(kept.commands, [command("first"), command("second")]);
        let ops: Vec<_> =
            kept.samples.iter().map(|(no, sample)| (*no, sample.measured.rate.ops)).collect();
        assert_eq!((ops, kept.failures.len()), (vec![(0, 2), (1, 3)], 0));
        // Drawn otherwise it is another benchmark.
        let skewed = Load { draw: Draw::Zipf, ..Load::default() };
        let mut kept = Kept::open(Some(path.clone())).unwrap();
        kept.begin(command("third")).unwrap();
        kept.add(Sample { load: skewed, ..sample("disk-sync", 4) }).unwrap();
        let kept = Kept::open(Some(path.clone())).unwrap().newest();
        let loads: Vec<_> =
            kept.samples.iter().map(|(no, sample)| (*no, sample.load.draw)).collect();
        let wanted = [(0, Draw::Uniform), (1, Draw::Uniform), (2, Draw::Zipf)];
        assert_eq!(loads, wanted);
        std::fs::write(&path, "{}\n").unwrap();
        assert!(Kept::open(Some(path)).unwrap_err().contains("line 1"));
    }
}
