//! Deletions of ranges of keys, cut into pieces that do not overlap, so that what covers a key is found by one
//! search. (RocksDB calls this a fragmented range tombstone list.)

use std::collections::{BTreeMap, BTreeSet};

use base::Seq;
use sst::RangeDelete;

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

impl Ranges {
    /// Cuts `deletes`, in any order, into pieces; empty ranges vanish.
    pub(crate) fn new(deletes: &[RangeDelete]) -> Ranges {
        let mut edges: BTreeMap<&[u8], Vec<(Seq, bool)>> = BTreeMap::new();
        for delete in deletes.iter().filter(|delete| delete.begin < delete.end) {
            edges.entry(&delete.begin).or_default().push((delete.seq, true));
            edges.entry(&delete.end).or_default().push((delete.seq, false));
        }
        let mut pieces: Vec<Piece> = Vec::new();
        // How many deletions of a number are open: a table may hold one in several parts.
        let mut open: BTreeMap<Seq, usize> = BTreeMap::new();
        let mut begin: &[u8] = &[];
        for (edge, changes) in edges {
            let seqs: Vec<Seq> = open.keys().rev().copied().collect();
            match pieces.last_mut() {
                _ if seqs.is_empty() => {}
                Some(last) if last.end == begin && last.seqs == seqs => last.end = edge.to_vec(),
                _ => pieces.push(Piece { begin: begin.to_vec(), end: edge.to_vec(), seqs }),
            }
            for (seq, opens) in changes {
                let count = open.entry(seq).or_default();
                if opens {
                    *count += 1;
                } else {
                    *count -= 1;
                }
                if *count == 0 {
                    open.remove(&seq);
                }
            }
            begin = edge;
        }
        Ranges { pieces }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The pieces as deletions again, in key order, of one piece the newest first.
    pub(crate) fn deletes(&self) -> impl Iterator<Item = RangeDelete> {
        self.pieces.iter().flat_map(|piece| {
            let delete = |seq: &Seq| RangeDelete {
                begin: piece.begin.clone(),
                end: piece.end.clone(),
                seq: *seq,
            };
            piece.seqs.iter().map(delete)
        })
    }

    /// The first key that is covered, and the first behind all that are.
    pub(crate) fn bounds(&self) -> Option<(&[u8], &[u8])> {
        Some((&self.pieces.first()?.begin, &self.pieces.last()?.end))
    }

    /// Numbers of the deletions that cover `key`, the newest first.
    #[inline]
    fn covering(&self, key: &[u8]) -> &[Seq] {
        let behind = self.pieces.partition_point(|piece| &piece.end[..] <= key);
        match self.pieces.get(behind) {
            Some(piece) if &piece.begin[..] <= key => &piece.seqs,
            _ => &[],
        }
    }

    /// Number of the newest deletion that covers `key` and is not younger than `at`; 0 if there is none.
    #[inline]
    pub(crate) fn newest(&self, key: &[u8], at: Seq) -> Seq {
        if self.is_empty() {
            return 0;
        }
        self.covering(key).iter().copied().find(|seq| *seq <= at).unwrap_or(0)
    }

    /// Number of the oldest deletion of version `seq` of `key`, or `newer`, the number of the next newer version, if
    /// that came first.
    #[inline]
    pub(crate) fn next_above(&self, key: &[u8], seq: Seq, newer: Option<Seq>) -> Option<Seq> {
        if self.is_empty() {
            return newer;
        }
        let deleted = self.covering(key).iter().rev().copied().find(|deleted| *deleted > seq);
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
        let clip = |piece: &Piece| {
            let begin = from.map_or(&piece.begin[..], |from| from.max(&piece.begin));
            let end = before.map_or(&piece.end[..], |before| before.min(&piece.end));
            let piece =
                Piece { begin: begin.to_vec(), end: end.to_vec(), seqs: piece.seqs.clone() };
            (piece.begin < piece.end).then_some(piece)
        };
        Ranges { pieces: self.pieces.iter().filter_map(clip).collect() }
    }

    /// Lowest and highest number.
    pub(crate) fn seqs(&self) -> Option<(Seq, Seq)> {
        let all: BTreeSet<Seq> =
            self.pieces.iter().flat_map(|piece| piece.seqs.iter().copied()).collect();
        Some((*all.first()?, *all.last()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delete(begin: &str, end: &str, seq: Seq) -> RangeDelete {
        RangeDelete { begin: begin.into(), end: end.into(), seq }
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
            assert_eq!(ranges.newest(key.as_bytes(), at), newest, "{key} at {at}");
        }
        assert_eq!(ranges.next_above(b"e", 4, None), Some(5));
        assert_eq!(ranges.next_above(b"e", 5, None), Some(9));
        assert_eq!(ranges.next_above(b"e", 5, Some(7)), Some(7));
        assert_eq!(ranges.next_above(b"z", 5, Some(7)), Some(7));
        assert_eq!(ranges.seqs(), Some((3, 9)));
        assert_eq!(ranges.bounds(), Some((&b"b"[..], &b"n"[..])));
    }

    #[test]
    fn parts() {
        let ranges = Ranges::new(&[delete("b", "f", 5), delete("d", "h", 9)]);
        assert_eq!(shown(&ranges.clip(Some(b"c"), Some(b"e"))), "c-d:[5] d-e:[9, 5]");
        assert_eq!(shown(&ranges.clip(Some(b"h"), None)), "");
        assert_eq!(shown(&ranges.retain(|_, seq, _| seq == 9)), "d-h:[9]");
        assert_eq!(shown(&ranges.retain(|_, _, newer| newer.is_none())), "b-d:[5] d-h:[9]");
    }
}
