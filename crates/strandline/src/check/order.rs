//! I-TREE-2 over the keys of a subrange: of every key, whatever lies in an older source is older.

use base::{ErrorKind, Result, Seq};

use crate::engine::Engine;
use crate::iter::merging::MergingIterator;
use crate::iter::source::{Source, StoreSource};
use crate::keyspace::KeyspaceState;
use crate::keyspace::view::View;
use crate::recovery::recover::Damage;
use crate::span::Span;
use crate::tree::ahead::Probing;

/// The first key with a version in an older source that is not older, if there is one. Sources come from the newest
/// on.
fn first_disorder<S: Source>(
    context: &S::Context,
    mut merging: MergingIterator<S>,
) -> Result<Option<Vec<u8>>> {
    let mut key = Vec::new();
    // Source and number of the version of `key` that came last, the next newer one.
    let mut newer: Option<(usize, Seq)> = None;
    while let (Some(source), Some(rank)) = (merging.source(), merging.rank()) {
        let Some(head) = source.head(context) else { break };
        match newer {
            Some((above, seq)) if head.key == key => {
                if rank < above || head.seq >= seq {
                    return Ok(Some(key));
                }
            }
            _ => {
                key.clear();
                key.extend_from_slice(head.key);
            }
        }
        newer = Some((rank, head.seq));
        merging.advance(context)?;
    }
    Ok(None)
}

/// Says which key of the subrange breaks the order, if one does, or that it cannot be told.
pub(crate) fn check(
    engine: &Engine,
    space: &KeyspaceState,
    span: &Span,
    view: &View,
) -> Option<Damage> {
    let media = &*engine.media;
    let found = sources(engine, span, view)
        .and_then(|sources| first_disorder(media, MergingIterator::new(media, sources)));
    let what = match found {
        Ok(None) => return None,
        // Whatever is damaged is listed by itself.
        Err(error) if error.kind() == ErrorKind::Corruption => return None,
        Ok(Some(key)) => format!(
            "an older version of key {} lies above a newer one; report this, and save the store with `strandline repair`",
            key.escape_ascii()
        ),
        Err(error) => format!("the order of versions cannot be proven: {error}"),
    };
    let what = format!("keyspace {}: {what}", space.name);
    Some(Damage { file: None, zone: None, at: 0, len: 0, what })
}

/// All sources of the keys in `span`, the newest first; of tables, those behind it too.
fn sources(engine: &Engine, span: &Span, view: &View) -> Result<Vec<StoreSource>> {
    let (media, upto) = (&*engine.media, engine.sequence.ring.visible());
    let mut sources = Vec::new();
    for memtable in &view.memtables {
        sources.push(StoreSource::memtable(media, memtable, span, upto)?);
    }
    for run in &view.runs {
        sources.push(StoreSource::run(media, run, span)?);
    }
    for (_, level) in view.tree.levels() {
        let tables = level.tables[level.within(span)].to_vec();
        sources.push(StoreSource::tables(tables, span.from(), Probing::Nothing)?);
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Db, Options};

    use crate::iter::source::InternalKey;

    type Versions = &'static [(&'static [u8], u64)];

    struct Listed(Versions);

    impl Source for Listed {
        type Context = ();

        fn head<'s>(&'s self, (): &'s ()) -> Option<InternalKey<'s>> {
            self.0.first().map(|&(key, seq)| InternalKey { key, seq: Seq::new(seq) })
        }

        fn advance(&mut self, (): &()) -> Result<()> {
            self.0 = &self.0[1..];
            Ok(())
        }
    }

    fn disorder(sources: &[Versions]) -> Option<Vec<u8>> {
        let sources = sources.iter().map(|versions| Listed(versions)).collect();
        first_disorder(&(), MergingIterator::new(&(), sources)).expect("nothing fails")
    }

    #[test]
    fn sources_of_a_store_are_compared_by_age() {
        let region = Arc::new(pmem::Region::heap(1 << 20, None).expect("heap"));
        let options = Options { background_threads: 0, ..Options::default() };
        let db = Db::open_region(region, options).expect("open");
        db.put(b"key", b"older").expect("put");
        crate::steps::switch_memtable(db.default_keyspace());
        db.put(b"key", b"newer").expect("put");
        let space = db.default_keyspace().space();
        let subrange = space.subrange_of(b"key");
        let view = subrange.view.load_full();
        assert!(check(db.engine(), space, &subrange.span, &view).is_none());
        let memtables = view.memtables.iter().rev().cloned().collect();
        let disordered = View { memtables, ..(*view).clone() };
        let found = check(db.engine(), space, &subrange.span, &disordered);
        let what = found.expect("disorder").what;
        assert!(what.contains("default") && what.contains("of key key"), "{what}");
    }

    #[test]
    fn disorder_is_found() {
        let table: &[(&[Versions], Option<&[u8]>)] = &[
            (&[], None),
            (&[&[(b"a", 9), (b"a", 7), (b"b", 3)], &[(b"a", 6), (b"c", 8)], &[(b"c", 7)]], None),
            // A newer one below, the same one twice, versions of one source that ascend.
            (&[&[(b"a", 7), (b"b", 3)], &[(b"a", 6), (b"b", 4)]], Some(b"b")),
            (&[&[(b"a", 7)], &[], &[(b"a", 7), (b"b", 4)]], Some(b"a")),
            (&[&[(b"a", 7), (b"b", 1), (b"b", 2)]], Some(b"b")),
        ];
        for (sources, expected) in table {
            assert_eq!(disorder(sources).as_deref(), *expected, "{sources:?}");
        }
    }
}
