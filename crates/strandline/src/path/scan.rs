//! The way of a scan: the sources of a View merged in key order, forward or backward.
//!
//! A scan is defined by its snapshot, not by its View: when there is a newer one it seeks on that at its last
//! key, so that a slow reader does not hold on to what is to be freed.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{Error, Result, Seq};

use crate::engine::Engine;
use crate::iter::{Cursor, Way};
use crate::keyspace::Space;
use crate::media::{Entry, Media};
use crate::memtable::record::Kind;
use crate::view::View;

/// A scan in progress.
pub(crate) struct Scan {
    engine: Arc<Engine>,
    media: Arc<Media>,
    space: Arc<Space>,
    at: Seq,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    view: Arc<View>,
    way: Way,
    cursors: Vec<Cursor>,
    /// The cursor whose head the scan stands on.
    current: Option<usize>,
    /// No bound lies ahead, and no damage needs to be told of.
    takes_all: bool,
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

impl Scan {
    /// A scan at snapshot `at`, which the caller keeps registered. Positioned nowhere.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        space: &Arc<Space>,
        at: Seq,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> Result<Scan> {
        engine.check_open("iterate")?;
        let (view, _) = engine.pin(space)?;
        Ok(Scan {
            engine: Arc::clone(engine),
            media: Arc::clone(&engine.media),
            space: Arc::clone(space),
            at,
            lower,
            upper,
            view: Arc::clone(&view),
            way: Way::Forward,
            cursors: Vec::new(),
            current: None,
            takes_all: false,
        })
    }

    /// The entry the scan stands on.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Entry> {
        self.cursors.get(self.current?)?.head.as_ref()
    }

    #[inline]
    pub(crate) fn media(&self) -> &Media {
        &self.media
    }

    /// Positions on the first key from `from` on, going `way`, within the bounds.
    pub(crate) fn seek(&mut self, from: Bound<&[u8]>, way: Way) -> Result<()> {
        self.engine.check_open("iterate")?;
        if self.is_behind() {
            // Its snapshot decides what the scan sees; the View only holds space.
            let (view, _) = self.engine.pin(&self.space)?;
            self.view = Arc::clone(&view);
        }
        let near = match way {
            Way::Forward => as_slice(&self.lower),
            Way::Backward => as_slice(&self.upper),
        };
        let from = tighter(from, near, way);
        let media = &*self.media;
        self.cursors.clear();
        self.current = None;
        self.way = way;
        let far = match way {
            Way::Forward => &self.upper,
            Way::Backward => &self.lower,
        };
        self.takes_all = matches!(far, Bound::Unbounded) && self.space.lost.is_none();
        for memtable in &self.view.memtables {
            if !memtable.index.is_empty() {
                self.cursors.push(Cursor::memtable(media, memtable, from, way, self.at)?);
            }
        }
        for run in &self.view.runs {
            self.cursors.push(Cursor::run(media, run, from, way, self.at)?);
        }
        self.settle()
    }

    /// Moves on to the next key going `way`; turns round if need be.
    #[inline]
    pub(crate) fn step(&mut self, way: Way) -> Result<()> {
        let Some(current) = self.current() else { return Ok(()) };
        // A View is replaced seldom, and what the old one holds is wanted.
        if way != self.way || self.is_behind() {
            let key = self.media.key(current).to_vec();
            return self.seek(Bound::Excluded(&key), way);
        }
        self.pass()?;
        self.settle()
    }

    /// Whether there is a newer View.
    #[inline]
    fn is_behind(&self) -> bool {
        self.space.front.number() != self.view.number && !self.space.dropped.load(Relaxed)
    }

    /// Moves every cursor that stands on the current key past it: older versions do not count.
    #[inline(always)]
    fn pass(&mut self) -> Result<()> {
        let media = &*self.media;
        if let [only] = &mut self.cursors[..] {
            return only.advance(media);
        }
        let Some(key) = self.current().map(|current| media.key(current)) else { return Ok(()) };
        for cursor in &mut self.cursors {
            if cursor.head.as_ref().is_some_and(|head| media.key(head) == key) {
                cursor.advance(media)?;
            }
        }
        Ok(())
    }

    /// Stands on the nearest key of all cursors that is neither deleted nor out of bounds.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        // One source and nothing to check against it: most steps of most scans.
        if let [only] = &self.cursors[..]
            && let Some(head) = &only.head
            && head.kind != Kind::Delete
            && self.takes_all
        {
            self.current = Some(0);
            return Ok(());
        }
        self.settle_among()
    }

    #[inline(never)]
    fn settle_among(&mut self) -> Result<()> {
        loop {
            self.current = nearest(&self.cursors, &self.media, self.way);
            let Some(entry) = self.current() else { return self.end() };
            let within = match self.way {
                Way::Forward => below(&self.media, entry, &self.upper),
                Way::Backward => above(&self.media, entry, &self.lower),
            };
            if !within {
                return self.end();
            }
            if let Some(lost) = &self.space.lost {
                lost.check(&self.space.name, self.media.key(entry), Some(entry.seq))?;
            }
            if entry.kind != Kind::Delete {
                return Ok(());
            }
            self.pass()?;
        }
    }

    /// The scan ends; where records were lost to damage, saying nothing would hide keys.
    fn end(&mut self) -> Result<()> {
        self.current = None;
        if self.space.lost.is_some() {
            return Err(Error::corruption(
                "iterate",
                format!(
                    "keyspace {} lost records to damage: keys may be missing from this scan \
                     (`strandline check` lists the ranges)",
                    self.space.name
                ),
            ));
        }
        Ok(())
    }
}

/// The cursor whose head comes next going `way`; of equal keys, the newest.
fn nearest(cursors: &[Cursor], media: &Media, way: Way) -> Option<usize> {
    let mut best: Option<(usize, &Entry)> = None;
    for (no, cursor) in cursors.iter().enumerate() {
        let Some(head) = &cursor.head else { continue };
        let nearer = best.is_none_or(|(_, other)| {
            let order = media.key(head).cmp(media.key(other));
            let order = if way == Way::Backward { order.reverse() } else { order };
            order.then(other.seq.cmp(&head.seq)) == Ordering::Less
        });
        if nearer {
            best = Some((no, head));
        }
    }
    best.map(|(no, _)| no)
}

#[inline]
fn below(media: &Media, entry: &Entry, upper: &Bound<Vec<u8>>) -> bool {
    match upper {
        Bound::Included(upper) => media.key(entry) <= &upper[..],
        Bound::Excluded(upper) => media.key(entry) < &upper[..],
        Bound::Unbounded => true,
    }
}

#[inline]
fn above(media: &Media, entry: &Entry, lower: &Bound<Vec<u8>>) -> bool {
    match lower {
        Bound::Included(lower) => media.key(entry) >= &lower[..],
        Bound::Excluded(lower) => media.key(entry) > &lower[..],
        Bound::Unbounded => true,
    }
}

/// The bound that leaves less, seen going `way`.
fn tighter<'k>(a: Bound<&'k [u8]>, b: Bound<&'k [u8]>, way: Way) -> Bound<&'k [u8]> {
    let (x, y) = match (a, b) {
        (Bound::Unbounded, other) | (other, Bound::Unbounded) => return other,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            (x, y)
        }
    };
    let order = if way == Way::Backward { y.cmp(x) } else { x.cmp(y) };
    match order {
        Ordering::Greater => a,
        Ordering::Less => b,
        Ordering::Equal if matches!(a, Bound::Excluded(_)) => a,
        Ordering::Equal => b,
    }
}
