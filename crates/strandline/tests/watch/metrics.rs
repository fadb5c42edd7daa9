//! The figures as text for Prometheus: it parses, says what the figures say, and its counters never fall.

use std::collections::BTreeMap;

use strandline::{Db, Options, PmSource};

/// Values by name and labels, as they stand in the text; and the kind of each name.
struct Parsed {
    values: BTreeMap<String, f64>,
    kinds: BTreeMap<String, String>,
}

fn is_name(text: &str) -> bool {
    text.starts_with("strandline_")
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Reads the text line by line; each line must be one of those that the format has, each figure must have a help.
fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed { values: BTreeMap::new(), kinds: BTreeMap::new() };
    let mut helped = String::new();
    let body = text.strip_suffix("# EOF\n").expect("the end is said");
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_else(|| panic!("{line}"));
            let (what, name, rest) = (word(), word(), word());
            assert!(is_name(name), "{line}");
            match what {
                "HELP" => {
                    assert!(
                        rest.ends_with('.') && rest.starts_with(|c: char| !c.is_lowercase()),
                        "{line}"
                    );
                    helped = name.into();
                }
                "TYPE" => {
                    assert!(name == helped && ["gauge", "counter"].contains(&rest), "{line}");
                    let twice = parsed.kinds.insert(name.into(), rest.into());
                    assert_eq!(twice, None, "{line}");
                }
                "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let (name, labels) = series.split_once('{').map_or((series, "}"), |parts| parts);
        assert!(labels.ends_with('}'), "{line}");
        let is_counter = parsed.kinds.get(&helped).is_some_and(|kind| kind == "counter");
        let total = if is_counter { "_total" } else { "" };
        assert_eq!(name, format!("{helped}{total}"), "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert_eq!(parsed.values.insert(series.into(), value), None, "{line}");
    }
    parsed
}

impl Parsed {
    #[track_caller]
    fn is(&self, series: &str, value: u64) {
        assert_eq!(self.values.get(series), Some(&(value as f64)), "{series}");
    }
}

fn filled(dir: &std::path::Path) -> Db {
    let options = Options::default().pm(PmSource::Path(dir.join("pool"))).pm_size(16 << 20);
    let db = Db::open(dir, options).expect("a store");
    for at in 0..2000_u32 {
        db.put(at.to_be_bytes(), [7; 100]).expect("written");
    }
    db.flush().expect("flushed");
    db.compact().expect("compacted");
    db.put("k", "v").expect("written");
    db
}

#[test]
fn the_text_says_what_the_figures_say() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = filled(dir.path());
    let odd = db.create_keyspace("a \"b\"\\\n").expect("a keyspace");
    odd.put("k", "v").expect("written");
    let now = db.properties();
    let parsed = parse(&now.prometheus());
    parsed.is("strandline_pm_capacity_bytes", now.pm_capacity);
    parsed.is("strandline_pm_free_bytes", now.pm_free);
    parsed.is("strandline_visible_seq", now.visible_seq.get());
    parsed.is("strandline_pm_media_bytes_total", now.persisted.media_bytes());
    parsed.is("strandline_pm_fences_total", now.persisted.fences);
    parsed.is("strandline_writes_refused", 0);
    let ssd = now.ssd.as_ref().expect("levels");
    parsed.is("strandline_compaction_written_bytes_total", ssd.compactions.written_bytes);
    assert!(
        now.persisted.fences > 0
            && ssd.compactions.written_bytes + ssd.compactions.pm_written_bytes > 0
    );
    parsed.is("strandline_memtable_records{keyspace=\"default\"}", 1);
    parsed.is("strandline_memtable_records{keyspace=\"a \\\"b\\\"\\\\\\n\"}", 1);
    let default = now.keyspaces.iter().find(|keyspace| keyspace.name == "default").expect("it");
    let level = default.levels.last().expect("a level with tables");
    let labels = format!("{{keyspace=\"default\",level=\"{}\"}}", level.level);
    parsed.is(&format!("strandline_level_bytes{labels}"), level.bytes());
    parsed.is(&format!("strandline_level_entries{labels}"), 2000);
    parsed.is("strandline_level_files{keyspace=\"default\",level=\"0\"}", 0);
}

#[test]
fn counters_never_fall() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = filled(dir.path());
    let before = parse(&db.properties().prometheus());
    for at in 0..2000_u32 {
        db.put(at.to_be_bytes(), [8; 100]).expect("written");
    }
    db.flush().expect("flushed");
    db.compact().expect("compacted");
    let after = parse(&db.properties().prometheus());
    let counters = |parsed: &Parsed| {
        let all = parsed.values.clone().into_iter();
        all.filter(|(series, _)| series.contains("_total")).collect::<Vec<_>>()
    };
    let (was, is) = (counters(&before), counters(&after));
    assert!(was.len() > 15, "{was:?}");
    for ((name, was), (same, is)) in was.iter().zip(&is) {
        assert!(name == same && was <= is, "{name}: {was}, then {same}: {is}");
    }
    let media = "strandline_pm_media_bytes_total";
    assert!(after.values[media] > before.values[media], "what is written is counted");
}
