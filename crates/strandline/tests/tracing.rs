//! Events of a store reach the subscriber of the crate `tracing`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use strandline::{Db, Event, Hooks, Listener, Options, PmSource};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

type Fields = BTreeMap<String, String>;

/// Remembers events of strandline with their fields.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Fields>>>);

struct Reader(Fields);

impl Visit for Reader {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Seen {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "strandline"
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut reader = Reader(Fields::new());
        event.record(&mut reader);
        self.0.lock().expect("whole").push(reader.0);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// What events say of themselves.
#[derive(Default)]
struct Heard(Mutex<Vec<Fields>>);

impl Listener for Heard {
    fn on_event(&self, event: &Event) {
        let fields = event.fields().into_iter().map(|(name, value)| {
            let text = value.to_string();
            (name.to_owned(), text.trim_matches('"').to_owned())
        });
        let mut fields: Fields = fields.collect();
        fields.insert("message".into(), event.name().into());
        self.0.lock().expect("whole").push(fields);
    }
}

/// A subscriber sees what a listener is told: the same events with the same fields.
#[test]
fn a_subscriber_sees_what_a_listener_is_told() {
    let seen = Seen::default();
    tracing::subscriber::set_global_default(seen.clone()).expect("the only one");
    let heard = Arc::new(Heard::default());
    let dir = tempfile::tempdir().expect("made");
    std::fs::write(dir.path().join("inspect.sock"), "mine").expect("written");
    let options = Options::default().pm_size(16 << 20).background_threads(0).inspect(true);
    let hooks = Hooks::default().listener(heard.clone());
    let db = Db::open_with(dir.path(), options, hooks).expect("open");
    for round in 0..2 {
        db.put("apple", format!("red {round}")).expect("put");
        db.compact().expect("compact");
    }
    db.work(1).expect("work");
    let mut told = std::mem::take(&mut *seen.0.lock().expect("whole"));
    let mut heard = std::mem::take(&mut *heard.0.lock().expect("whole"));
    for fields in told.iter_mut().chain(heard.iter_mut()) {
        // Printed with more or fewer digits.
        fields.entry("seconds".into()).and_modify(|seconds| *seconds = "some".into());
    }
    assert_eq!(told, heard);
    let names: Vec<&str> = told.iter().map(|fields| &fields["message"][..]).collect();
    for name in ["inspection_failed", "flush_completed", "compaction_completed", "table_deleted"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }

    // Without a listener it is the subscriber that is told.
    let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20).background_threads(0);
    let db = Db::open("unused-for-heap", options).expect("open");
    db.put("apple", "red").expect("put");
    db.flush().expect("flush");
    let told = seen.0.lock().expect("whole");
    let names: Vec<&str> = told.iter().map(|fields| &fields["message"][..]).collect();
    assert_eq!(names, ["flush_begun", "flush_completed"]);
}
