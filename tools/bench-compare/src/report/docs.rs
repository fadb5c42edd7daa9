//! The report as a page: a section for each group, which keeps its place and its own command until it is measured again.

use super::{Report, Row, table};
use crate::engines::{self, BARE_LOOPS, RIVALS};
use crate::flags::Flags;
use crate::kept::Command;
use crate::promise::{UNEQUAL, UNLIKE_SCANS, UNLIKE_WRITERS};
use crate::sample::{self, Load};
use crate::stages::{self, Group};

/// Where the page goes, from the root of the repository.
pub const PAGE: &str = "docs/benchmarks.md";

/// Begins a section of the page.
const SECTION: &str = "\n## ";

/// The page. Sections of groups that were not measured are those of `before`, an earlier page.
pub fn page(report: &Report, before: &str) -> String {
    let rows = report.rows();
    let mut page = intro();
    for group in Group::ALL {
        let of_group: Vec<&Row> = rows.iter().filter(|row| row.group == group).collect();
        page += &match of_group.is_empty() {
            true => earlier(before, group)
                .map_or_else(|| missing(group), |section| with_lacks(&section, group)),
            false => with_lacks(&section(report, group, &of_group), group),
        };
    }
    page += "\n## Engines\n\n| engine | settings |\n|---|---|\n";
    for maker in engines::all() {
        page += &format!("| {}: {} | {} |\n", maker.name, maker.version, maker.settings);
    }
    page += "\n## Benchmarks\n\n| benchmark | |\n|---|---|\n";
    stages::about().for_each(|(name, about)| page += &format!("| {name} | {about} |\n"));
    page
}

fn intro() -> String {
    format!(
        "# This engine beside others

Written by `tools/bench-compare`; run it again rather than change figures here. Each benchmark ran on the engines in
turns, beginning with another each time, with the same keys and values; every answer was compared with what it should be,
and every store read whole at the end. A ratio above 1 means that this engine is faster; least and most are those of
single turns.

Each row names what a completed put survived on both sides: `power-fail`, `synced to SSD`, `process crash only`, the same
where a power failure may take the whole store, or `none`. Where the two are not the same, there is no ratio ({UNEQUAL}).
Nor is it a comparison of speed where one side put more beside the reads that were measured ({UNLIKE_WRITERS}), or scanned
more ({UNLIKE_SCANS}).

```sh
scripts/install-rivals
B=\"cargo run --release -p strandline-bench-compare -- --group=disk --disk=DIR --into=FILE\"
$B --only=disk-sync
$B --only=disk-fill
$B --only=disk-get-memory,disk-scan-memory,disk-get-cached,disk-scan-cached
$B --only=disk-get-cold,disk-scan-cold,disk-get-direct,disk-scan-direct,disk-mixed,disk-overwrite
$B --only=disk-get-zipf
$B --group=hybrid
$B --group=transaction --seconds=4
$B --group=ycsb --seconds=5
$B --group=tpcc --seconds=10
$B --report --write-docs
```

`--disk` names a folder on the disk that all engines use; a folder in memory is refused. `--memory` is what each engine
gets where data exceeds it. `--into` names a file that figures are added to, so that parts can be run one after the other,
and again; each part takes less than an hour, and half of that with only one of the `--values`. `--seconds`, `--duration`
(of overwrites) and `--runs` scale the time, `--values` and `--rivals` choose what runs, and `--quick` looks whether all
works. `--values=16K,64K` are long values. `--filling=random` has values that do not compress, and `--draw=zipf` or `hot-set` draws a
few keys most of the time; with either a row is another one and says so, beside those without. `--cgroup=DIR` names a control
group of memory in which each run gets its own; give that a limit to hold pages of files, too. `--write-docs` writes the groups that were measured and leaves the others as they are.

Values apart from their keys, on this engine and on RocksDB, are rivals that run where they are named; so are benchmarks of
stores that were written over three times (`disk-worn`). What that takes of the disk and what is written for it stands
beside each rate: compare engines where they take the same space. What came of it: [values](guide/values.md#what-it-gains).

```sh
$B --only=disk-fill,disk-worn --values=1024 --filling=random --rivals=strandline-apart-130,strandline-apart-155,rocksdb,rocksdb-blob
$B --only=disk-worn --values=16K --memory=32M --rivals=strandline-apart,rocksdb,rocksdb-blob,rocksdb-blob-unforced
```

What the columns of costs count. A quantile is missing (-) where fewer than ten operations took longer. Bytes to files: what
the process gave to write calls, logs included, the same for all engines, until nothing more was written for half a second;
how long that took is told. Where strandline counts more itself, that: it writes tables past the system's cache by
io_uring, and its log to a mapping where it is not synced, which the system does not count so. To the SSD: what the system
counts as to be written to the disk, in whole pages; a page that is changed twice before it is written counts once, one that
is synced twice counts twice. Times the data on the disk: what all files take at the end, logs included, to keys and values.
Memory: the most of what no file backs, and files in tmpfs; LMDB's cache is the system's and not in it. KiB from the disk each: for a get or scan; near 0, the system's cache had it.
Without the disk: gets that found all in memory or persistent memory, so that their thread read nothing from the disk, of one in 16
that was looked at; a scan beside them reads on another thread, and is not in it.
"
    )
}

/// The section of `group` in an earlier page.
fn earlier(before: &str, group: Group) -> Option<String> {
    let head = format!("{SECTION}{}\n", group.about());
    let start = before.find(&head)?;
    let len = before[start + 1..].find(SECTION).map_or(before.len() - start, |next| next + 1);
    Some(before[start..start + len].to_string())
}

fn missing(group: Group) -> String {
    format!("{SECTION}{}\n\nNot measured yet: `--group={}`.\n", group.about(), group.name())
}

/// Begins the line about benchmarks of a group that have no row where others have.
const LACKS: &str = "Without a row yet: ";

/// The section with a line about what it lacks, in place of an earlier one.
fn with_lacks(section: &str, group: Group) -> String {
    let kept = section.lines().filter(|line| !line.starts_with(LACKS)).collect::<Vec<_>>();
    let section = kept.join("\n").trim_end().to_string() + "\n";
    match lacks(&section, group) {
        None => section,
        Some(lacks) => format!("{section}\n{LACKS}{lacks}.\n"),
    }
}

/// The benchmarks that run by themselves and have no row in the section, with the engines beside which they have none.
pub(super) fn lacks(section: &str, group: Group) -> Option<String> {
    let mut lacking: Vec<(&str, Vec<&str>)> = Vec::new();
    let usual = Flags::default();
    for stage in stages::all().filter(|stage| stage.group == group) {
        for case in usual.cases(stage) {
            let makers = RIVALS.iter().chain(&BARE_LOOPS);
            for maker in makers.filter(|maker| (maker.offers)(stage, case)) {
                let key = sample::key(stage, case, Load::default());
                let cells = [case.name, maker.name, &case.threads.to_string(), &key.values()];
                if section.contains(&format!("\n| {} | ", cells.join(" | "))) {
                    continue;
                }
                match lacking.iter_mut().find(|(name, _)| *name == case.name) {
                    Some((_, rivals)) if rivals.contains(&maker.name) => {}
                    Some((_, rivals)) => rivals.push(maker.name),
                    None => lacking.push((case.name, vec![maker.name])),
                }
            }
        }
    }
    let told = lacking.iter().map(|(name, rivals)| format!("{name} ({})", rivals.join(", ")));
    (!lacking.is_empty()).then(|| told.collect::<Vec<_>>().join("; "))
}

fn section(report: &Report, group: Group, rows: &[&Row]) -> String {
    let mut text = format!("{SECTION}{}\n\n", group.about());
    let mut line = |more: &str| text += &format!("{more}\n");
    let samples = || report.samples.iter().filter(|(_, sample)| sample.group() == group);
    let used = |number: usize| samples().any(|(command, _)| *command == number);
    let commands = report.commands.iter().enumerate().filter(|(number, _)| used(*number));
    let commands: Vec<&Command> = commands.map(|(_, command)| command).collect();
    line(
        "Medians of three runs or more; where a row has fewer, its ratio says so. Measured by\n\n```sh",
    );
    commands.iter().for_each(|command| line(&command.words));
    line("```\n\n| machine | |\n|---|---|");
    facts(&commands).iter().for_each(|(name, value)| line(&format!("| {name} | {value} |")));
    line(&format!("\n| {} |", table::HEADS.join(" | ")));
    line(&format!("|{}", "---|".repeat(table::HEADS.len())));
    rows.iter().for_each(|row| line(&format!("| {} |", table::cells(row).join(" | "))));
    line("\nHow puts survived that:\n\n| engine | |\n|---|---|");
    for maker in engines::all() {
        let of_maker = samples().filter(|(_, sample)| sample.engine == maker.name);
        let cases: Vec<(&str, String)> = of_maker
            .map(|(_, sample)| {
                (sample.case.name, format!("{}: {}", sample.promise, sample.durability))
            })
            .collect();
        if !cases.is_empty() {
            line(&format!("| {} | {} |", maker.name, survives(&cases)));
        }
    }
    line(&format!("\nWhat it cost:\n\n| {} |", COST_HEADS.join(" | ")));
    line(&format!("|{}", "---|".repeat(COST_HEADS.len())));
    for row in rows.iter().filter(|row| row.costs.iter().any(|cost| !cost.is_empty())) {
        let ([ours, theirs], [our, their]) = (row.ratio.promises(), &row.costs);
        let (benchmark, values) = (row.case.shown(), row.case.values());
        let (rival, threads) = (row.rival, row.case.threads);
        line(&format!(
            "| {benchmark} | {rival} | {threads} | {values} | {ours} | {our} | {theirs} | {their} |"
        ));
    }
    if !report.failures.is_empty() {
        line("\nWhat failed:\n");
        report.failures.iter().for_each(|failure| line(&format!("- {failure}")));
    }
    text
}

/// Heads of the table of costs.
const COST_HEADS: [&str; 8] = [
    "benchmark",
    "rival",
    "threads",
    "value",
    "our puts survive",
    "ours",
    "rival's survive",
    "rival's",
];

/// Facts of all commands: what they found differently side by side.
fn facts(commands: &[&Command]) -> Vec<(String, String)> {
    let mut facts: Vec<(String, Vec<String>)> = Vec::new();
    let mut add =
        |name: &str, value: String| match facts.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => facts.push((name.into(), vec![value])),
        };
    for command in commands {
        command.facts.iter().for_each(|(name, value)| add(name, value.clone()));
        if let Some([small, large]) = command.limits.persist_ns {
            add(PERSIST, format!("{small:.0} ns, {large:.0} ns"));
        }
        if let Some(us) = command.limits.read_us {
            add(READ, format!("{us:.1} us"));
        }
    }
    facts.into_iter().map(|(name, values)| (name, values.join("; "))).collect()
}

const PERSIST: &str = "limit: a record of 128 B, of 1 KiB, persisted in memory";
const READ: &str = "limit: a random block of 4 KiB read from the disk";

/// What puts of an engine survive; of each benchmark, that. What holds in most benchmarks comes first, without their names.
fn survives(cases: &[(&str, String)]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (benchmark, class) in cases {
        match groups.iter_mut().find(|(known, _)| known == class) {
            Some((_, benchmarks)) if benchmarks.contains(benchmark) => {}
            Some((_, benchmarks)) => benchmarks.push(benchmark),
            None => groups.push((class, vec![benchmark])),
        }
    }
    groups.sort_by_key(|(_, benchmarks)| std::cmp::Reverse(benchmarks.len()));
    let texts = groups.iter().enumerate().map(|(place, (class, benchmarks))| match place {
        0 => (*class).to_string(),
        _ => format!("{}: {class}", benchmarks.join(", ")),
    });
    texts.collect::<Vec<String>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_for_each_engine() {
        let cases =
            [("fill", "process"), ("sync", "power"), ("read", "process"), ("fill", "process")];
        let cases = cases.map(|(benchmark, class)| (benchmark, class.to_string()));
        assert_eq!(survives(&cases), "process; sync: power");
        assert_eq!(survives(&cases[..1]), "process");
    }

    #[test]
    fn sections_of_an_earlier_page_stay() {
        let about = Group::Tmpfs.about();
        let page = format!("# Page\n\n## {about}\n\nold figures\n\n## Engines\n\n| |\n");
        let section = format!("\n## {about}\n\nold figures\n");
        assert_eq!(earlier(&page, Group::Tmpfs), Some(section.clone()));
        assert_eq!(earlier(&page[..page.find("\n## E").unwrap()], Group::Tmpfs), Some(section));
        assert_eq!(earlier(&page, Group::Disk), None);
    }

    #[test]
    fn a_section_tells_what_it_lacks_once() {
        let row = |rival: &str| format!("| tpcc-disk | {rival} | 16 | any | 1 k |\n");
        let section = format!("\n## TPC-C\n\n{}", row("rocksdb-optimistic"));
        let told = with_lacks(&section, Group::Tpcc);
        let line = "Without a row yet: tpcc-disk (strandline-pessimistic, rocksdb-optimistic, rocksdb-pessimistic); tpcc-pm (";
        assert!(told.contains(line), "{told}");
        assert_eq!(with_lacks(&told, Group::Tpcc), told);
        // Each number of threads has its row.
        let all: String = ["tpcc-disk", "tpcc-pm"]
            .iter()
            .flat_map(|name| ["1", "2", "16"].map(|threads| (name, threads)))
            .flat_map(|(name, threads)| {
                ["strandline-pessimistic", "rocksdb-optimistic", "rocksdb-pessimistic"]
                    .map(|rival| format!("| {name} | {rival} | {threads} | any | 1 k |\n"))
            })
            .collect();
        let whole = format!("\n## TPC-C\n\n{all}");
        assert_eq!(with_lacks(&whole, Group::Tpcc), whole);
    }
}
