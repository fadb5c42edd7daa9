//! Deletions of ranges of keys, cut into pieces that do not overlap, so that what covers a key is found by one
//! search. (RocksDB calls this a fragmented range tombstone list.)

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use base::Seq;
use sst::RangeDelete;

use crate::snapshot::Horizon;
use crate::span::Span;

/// Range deletions of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// Disjoint, in key order.
    pieces: Vec<Piece>,
}

/// Keys that the same deletions cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub begin: Vec<u8>,
    /// The first key behind the piece.
    pub end: Vec<u8>,
    /// Numbers of the deletions, the newest first.
    pub seqs: Vec<Seq>,
}

/// Keys that a deletion covers, from `begin` up to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch<'r> {
    pub begin: &'r [u8],
    pub end: &'r [u8],
    pub seq: Seq,
}

impl Stretch<'_> {
    /// Whether it covers a key of `span`.
    pub(crate) fn meets(&self, span: &Span) -> bool {
        self.end > &span.lower[..] && span.before().is_none_or(|upper| self.begin < upper)
    }
}

/// A deletion begins or ends here.
struct Edge<'r> {
    key: &'r [u8],
    seq: Seq,
    begins: bool,
}

/// Deletions that cover the place that a sweep over edges has come to, by number, with how many parts of each do: a
/// table may hold one in several.
type OpenRanges = BTreeMap<Seq, usize>;

impl Ranges {
    /// Cuts `deletes`, in any order, into pieces that name all deletions of them; empty ranges vanish. What it costs, and
    /// yields, grows with the overlaps: it is for the few sources of a merge, each cut into pieces already.
    pub(crate) fn new(deletes: &[RangeDelete]) -> Ranges {
        Ranges::cut(deletes.iter().map(stretch), |open| open.keys().rev().copied().collect())
    }

    /// Cuts `deletes`, in any order, into pieces that name those deletions of them that some reader needs: where many
    /// overlap few count.
    pub(crate) fn needed<'r>(
        deletes: impl Iterator<Item = Stretch<'r>>,
        horizon: &Horizon,
    ) -> Ranges {
        Ranges::cut(deletes, |open| needed(open, horizon))
    }

    fn cut<'r>(
        deletes: impl Iterator<Item = Stretch<'r>>,
        names: impl Fn(&OpenRanges) -> Vec<Seq>,
    ) -> Ranges {
        let edges = deletes.filter(|delete| delete.begin < delete.end).flat_map(|delete| {
            let Stretch { begin, end, seq } = delete;
            [Edge { key: begin, seq, begins: true }, Edge { key: end, seq, begins: false }]
        });
        let mut edges: Vec<Edge<'_>> = edges.collect();
        edges.sort_unstable_by_key(|edge| edge.key);
        let mut pieces: Vec<Piece> = Vec::new();
        let mut open = OpenRanges::new();
        let mut begin: &[u8] = &[];
        for together in edges.chunk_by(|a, b| a.key == b.key) {
            let end = together[0].key;
            let seqs = names(&open);
            match pieces.last_mut() {
                _ if seqs.is_empty() => {}
                Some(last) if last.end == begin && last.seqs == seqs => last.end = end.to_vec(),
                _ => pieces.push(Piece { begin: begin.to_vec(), end: end.to_vec(), seqs }),
            }
            for edge in together.iter().filter(|edge| edge.begins) {
                *open.entry(edge.seq).or_default() += 1;
            }
            for edge in together.iter().filter(|edge| !edge.begins) {
                if let Entry::Occupied(mut parts) = open.entry(edge.seq) {
                    *parts.get_mut() -= 1;
                    if *parts.get() == 0 {
                        parts.remove();
                    }
                }
            }
            begin = end;
        }
        Ranges { pieces }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The pieces as deletions again, in key order, of one piece the newest first.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        self.pieces.iter().flat_map(|piece| {
            let Piece { begin, end, seqs } = piece;
            seqs.iter().map(move |seq| Stretch { begin, end, seq: *seq })
        })
    }

    /// As [`Ranges::stretches`], to keep.
    pub(crate) fn deletes(&self) -> impl Iterator<Item = RangeDelete> {
        self.stretches().map(|stretch| RangeDelete {
            begin: stretch.begin.to_vec(),
            end: stretch.end.to_vec(),
            seq: stretch.seq,
        })
    }

    /// The first key that is covered, and the first behind all that are.
    pub(crate) fn bounds(&self) -> Option<(&[u8], &[u8])> {
        Some((&self.pieces.first()?.begin, &self.pieces.last()?.end))
    }

    /// The piece that `key` is in.
    #[inline]
    fn piece(&self, key: &[u8]) -> Option<&Piece> {
        let behind = self.pieces.partition_point(|piece| &piece.end[..] <= key);
        self.pieces.get(behind).filter(|piece| &piece.begin[..] <= key)
    }

    /// Number of the newest deletion that covers `key` and is not younger than `snapshot`; 0 if there is none.
    #[inline]
    pub(crate) fn newest(&self, key: &[u8], snapshot: Seq) -> Seq {
        if self.is_empty() {
            return Seq::ZERO;
        }
        self.covering(key, snapshot).map_or(Seq::ZERO, |stretch| stretch.seq)
    }

    /// The keys around `key` that the newest deletion of it covers that is not younger than `snapshot`. It may cover others
    /// beside them too.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8], snapshot: Seq) -> Option<Stretch<'_>> {
        let piece = self.piece(key)?;
        let newer = piece.seqs.partition_point(|seq| *seq > snapshot);
        let seq = *piece.seqs.get(newer)?;
        Some(Stretch { begin: &piece.begin, end: &piece.end, seq })
    }

    /// Number of the oldest deletion of version `seq` of `key`, or `newer`, the number of the next newer version, if
    /// that came first.
    #[inline]
    pub(crate) fn next_above(&self, key: &[u8], seq: Seq, newer: Option<Seq>) -> Option<Seq> {
        let Some(piece) = self.piece(key) else { return newer };
        let above = piece.seqs.partition_point(|deleted| *deleted > seq);
        let deleted = above.checked_sub(1).map(|oldest| piece.seqs[oldest]);
        deleted.into_iter().chain(newer).min()
    }

    /// What is left when `keeps` has judged each deletion, given the next newer one of its piece.
    pub(crate) fn retain(&self, keeps: impl Fn(&Piece, Seq, Option<Seq>) -> bool) -> Ranges {
        let mut kept = Vec::new();
        for piece in &self.pieces {
            let mut newer = None;
            for seq in &piece.seqs {
                if keeps(piece, *seq, newer) {
                    let (begin, end) = (piece.begin.clone(), piece.end.clone());
                    kept.push(RangeDelete { begin, end, seq: *seq });
                }
                newer = Some(*seq);
            }
        }
        Ranges::new(&kept)
    }

    /// The part between two keys: from `from` on, up to before `before`.
    pub(crate) fn clip(&self, from: Option<&[u8]>, before: Option<&[u8]>) -> Ranges {
        let mut pieces = self.within(from, before).to_vec();
        if let (Some(first), Some(from)) = (pieces.first_mut(), from) {
            first.begin = from.max(&first.begin).to_vec();
        }
        if let (Some(last), Some(before)) = (pieces.last_mut(), before) {
            last.end = before.min(&last.end).to_vec();
        }
        Ranges { pieces }
    }

    /// As [`Ranges::bounds`], of the part between two keys.
    pub(crate) fn bounds_within<'r>(
        &'r self,
        from: Option<&'r [u8]>,
        before: Option<&'r [u8]>,
    ) -> Option<(&'r [u8], &'r [u8])> {
        let ([first, .., last] | [first @ last]) = self.within(from, before) else { return None };
        let begin = from.map_or(&first.begin[..], |from| from.max(&first.begin));
        let end = before.map_or(&last.end[..], |before| before.min(&last.end));
        Some((begin, end))
    }

    /// The pieces with keys between two keys.
    fn within(&self, from: Option<&[u8]>, before: Option<&[u8]>) -> &[Piece] {
        if from.zip(before).is_some_and(|(from, before)| from >= before) {
            return &[];
        }
        let ends = |from| self.pieces.partition_point(|piece| &piece.end[..] <= from);
        let begins = |before| self.pieces.partition_point(|piece| &piece.begin[..] < before);
        let first = from.map_or(0, ends);
        let behind = before.map_or(self.pieces.len(), begins);
        self.pieces.get(first..behind).unwrap_or_default()
    }

    /// How many deletions its pieces name, each as often as a piece does.
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.seqs.len()).sum()
    }

    /// Lowest and highest number.
    pub(crate) fn seqs(&self) -> Option<(Seq, Seq)> {
        let oldest = self.pieces.iter().filter_map(|piece| piece.seqs.last()).min();
        let newest = self.pieces.iter().filter_map(|piece| piece.seqs.first()).max();
        oldest.copied().zip(newest.copied())
    }
}

/// What a deletion covers.
pub(crate) fn stretch(delete: &RangeDelete) -> Stretch<'_> {
    Stretch { begin: &delete.begin, end: &delete.end, seq: delete.seq }
}

/// Those of the deletions of a place that some reader needs, the newest first: of all that a reader sees the newest, and
/// all that are above the horizon.
fn needed(open: &OpenRanges, horizon: &Horizon) -> Vec<Seq> {
    let above = (Bound::Excluded(horizon.newest()), Bound::Unbounded);
    let mut seqs: Vec<Seq> = open.range(above).rev().map(|(seq, _)| *seq).collect();
    let mut reader = Some(horizon.newest());
    while let Some((seq, _)) = reader.and_then(|at| open.range(..=at).next_back()) {
        seqs.push(*seq);
        reader = horizon.reader_below(*seq);
    }
    seqs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delete(begin: &str, end: &str, seq: u64) -> RangeDelete {
        RangeDelete { begin: begin.into(), end: end.into(), seq: Seq::new(seq) }
    }

    fn shown(ranges: &Ranges) -> String {
        let piece = |piece: &Piece| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            format!("{}-{}:{:?}", text(&piece.begin), text(&piece.end), piece.seqs)
        };
        ranges.pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pieces_do_not_overlap() {
        let all =
            [delete("b", "f", 5), delete("d", "h", 9), delete("k", "k", 1), delete("m", "n", 3)];
        let ranges = Ranges::new(&all);
        assert_eq!(shown(&ranges), "b-d:[5] d-f:[9, 5] f-h:[9] m-n:[3]");
        let again: Vec<RangeDelete> = ranges.deletes().collect();
        assert_eq!(Ranges::new(&again), ranges);
        for (key, at, newest) in [
            ("a", 99, 0),
            ("b", 99, 5),
            ("b", 4, 0),
            ("e", 99, 9),
            ("e", 8, 5),
            ("g", 8, 0),
            ("h", 99, 0),
            ("m", 3, 3),
        ] {
            let found = ranges.newest(key.as_bytes(), Seq::new(at));
            assert_eq!(found, Seq::new(newest), "{key} at {at}");
        }
        assert_eq!(ranges.next_above(b"e", Seq::new(4), None), Some(Seq::new(5)));
        assert_eq!(ranges.next_above(b"e", Seq::new(5), None), Some(Seq::new(9)));
        assert_eq!(ranges.next_above(b"e", Seq::new(5), Some(Seq::new(7))), Some(Seq::new(7)));
        assert_eq!(ranges.next_above(b"z", Seq::new(5), Some(Seq::new(7))), Some(Seq::new(7)));
        assert_eq!(ranges.seqs(), Some((Seq::new(3), Seq::new(9))));
        assert_eq!(ranges.bounds(), Some((&b"b"[..], &b"n"[..])));
    }

    #[test]
    fn parts() {
        let ranges = Ranges::new(&[delete("b", "f", 5), delete("d", "h", 9)]);
        assert_eq!(shown(&ranges.clip(Some(b"c"), Some(b"e"))), "c-d:[5] d-e:[9, 5]");
        assert_eq!(shown(&ranges.clip(Some(b"h"), None)), "");
        assert_eq!(shown(&ranges.retain(|_, seq, _| seq == Seq::new(9))), "d-h:[9]");
        assert_eq!(shown(&ranges.retain(|_, _, newer| newer.is_none())), "b-d:[5] d-h:[9]");
    }
}
