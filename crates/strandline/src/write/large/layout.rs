//! Where the records of a large commit go: a pure function from their lengths to zones.

use std::ops::Range;

use crate::record::adopt::PART_LEN;
use crate::record::format::{Kind, Role, Segment, SeqForm, Shape};

/// What goes to a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZonePlan {
    /// Of the changes of the group, from its first on.
    pub ops: Range<usize>,
    /// Bytes of their records.
    pub len: u64,
}

/// Why records cannot be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooLong {
    /// The record of this change does not fit a zone.
    Record(usize),
    /// The adopt record does not, since it names so many zones.
    List(usize),
}

/// The shape of the adopt record of `segment`, which names so many zones.
pub(super) fn adopt_shape(segment: Segment, zones: usize) -> Shape {
    let role = Role::First(segment);
    Shape { kind: Kind::Adopt, role, key_len: 0, value_len: zones * PART_LEN }
}

/// Fills zones of `zone_len` bytes one after the other with records of these lengths, and finds room for the adopt record of
/// `segment` behind the last. That may take a zone of its own, in which there is nothing else.
pub(super) fn lay_out(
    lens: impl Iterator<Item = u64>,
    zone_len: u64,
    segment: Segment,
) -> Result<Vec<ZonePlan>, TooLong> {
    let mut zones: Vec<ZonePlan> = Vec::new();
    for (at, len) in lens.enumerate() {
        if len > zone_len {
            return Err(TooLong::Record(at));
        }
        match zones.last_mut() {
            Some(last) if last.len + len <= zone_len => {
                last.ops.end = at + 1;
                last.len += len;
            }
            _ => zones.push(ZonePlan { ops: at..at + 1, len }),
        }
    }
    let adopt_len = |zones: usize| adopt_shape(segment, zones).len(SeqForm::Wide);
    let last = zones.last().map_or(zone_len, |last| last.len);
    if last + adopt_len(zones.len()) > zone_len {
        let end = zones.last().map_or(0, |last| last.ops.end);
        zones.push(ZonePlan { ops: end..end, len: 0 });
    }
    if adopt_len(zones.len()) > zone_len {
        return Err(TooLong::List(zones.len()));
    }
    Ok(zones)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment() -> Segment {
        Segment { place: 0, commit_records: 100, records: 1, index: 0, segments: 1 }
    }

    #[test]
    fn records_fill_zones_and_the_adopt_record_comes_last() {
        let out = |lens: &[u64]| {
            let zones = lay_out(lens.iter().copied(), 1024, segment()).expect("fits");
            zones.into_iter().map(|zone| (zone.ops, zone.len)).collect::<Vec<_>>()
        };
        assert_eq!(out(&[512, 384, 64]), [(0..3, 960)]);
        // The adopt record has no room behind it.
        assert_eq!(out(&[512, 512]), [(0..2, 1024), (2..2, 0)]);
        assert_eq!(out(&[512, 576, 128]), [(0..1, 512), (1..3, 704)]);
    }

    #[test]
    fn what_fits_no_zone_is_refused() {
        let out = |lens: &[u64], zone_len| lay_out(lens.iter().copied(), zone_len, segment());
        assert_eq!(out(&[64, 1088], 1024), Err(TooLong::Record(1)));
        let many = [1024; 50];
        assert_eq!(out(&many, 1024), Err(TooLong::List(51)));
        assert!(out(&many, 2048).is_ok());
    }
}
