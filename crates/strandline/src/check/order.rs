//! I-TREE-2 over the keys of a subrange: of every key, whatever lies in an older source is older.

use base::{ErrorKind, Result, Seq};

use crate::compaction::merge::stream::Stream;
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::view::View;
use crate::recovery::recover::Damage;
use crate::span::Span;

/// Key and sequence number of the entry that a source stands on.
type SourceHead<C, S> = for<'s> fn(&'s C, &'s S) -> Option<(&'s [u8], Seq)>;

/// The first key of which an older source has a version that is not older, if there is one. Sources come from the newest
/// on, their keys ascend, and versions of a key descend.
fn first_disorder<C, S>(
    context: &C,
    sources: &mut [S],
    head: SourceHead<C, S>,
    advance: fn(&C, &mut S) -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    let mut key = Vec::new();
    loop {
        let heads = sources.iter().filter_map(|source| head(context, source));
        let Some(least) = heads.map(|(key, _)| key).min() else { return Ok(None) };
        key.clear();
        key.extend_from_slice(least);
        let mut newest = None;
        for source in sources.iter_mut() {
            while let Some((_, seq)) = head(context, source).filter(|(at, _)| *at == key) {
                if newest.is_some_and(|newest| seq >= newest) {
                    return Ok(Some(key));
                }
                newest = Some(seq);
                advance(context, source)?;
            }
        }
    }
}

/// Says which key of the subrange breaks the order, if one does, or that nobody can tell.
pub(crate) fn check(
    engine: &Engine,
    space: &KeyspaceState,
    span: &Span,
    view: &View,
) -> Option<Damage> {
    let media = &*engine.media;
    let found = streams(engine, span, view).and_then(|mut streams| {
        first_disorder(
            media,
            &mut streams,
            |media, stream| stream.key(media).map(|key| (key, stream.seq())),
            |media, stream| stream.advance(media),
        )
    });
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
fn streams(engine: &Engine, span: &Span, view: &View) -> Result<Vec<Stream>> {
    let (media, upto) = (&*engine.media, engine.ring.visible());
    let mut streams = Vec::new();
    for memtable in &view.memtables {
        streams.push(Stream::memtable(media, memtable, span, upto)?);
    }
    for run in &view.runs {
        streams.push(Stream::run(media, run, span)?);
    }
    for (_, level) in view.tree.levels() {
        streams.push(Stream::tables(level.tables[level.within(span)].to_vec(), span.from())?);
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Db, Options};

    type Versions = &'static [(&'static [u8], Seq)];

    fn disorder(sources: &[Versions]) -> Option<Vec<u8>> {
        let found = first_disorder(
            &(),
            &mut sources.to_vec(),
            |(), source| source.first().copied(),
            |(), source| {
                *source = &source[1..];
                Ok(())
            },
        );
        found.expect("nothing fails")
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
