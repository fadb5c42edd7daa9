//! A miss-ratio curve from a sample of keys, in memory that does not depend on how many keys there are.
//!
//! C. A. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC Construction with SHARDS", FAST 2015: SHARDS of fixed size,
//! with the adjustment SHARDS-adj. Keys with the smallest hashes are kept. When there is one too many, the one with the greatest hash
//! goes, and the share of keys that is sampled falls. A distance stands for as many times its bytes as a key stands for keys, and so does a
//! read: that is the same as the paper's scaling of counts when the share falls. In the end there are more or fewer such reads than there were,
//! by the chance that has or has not sampled hot keys: the difference counts as reads that the smallest cache hits, or is taken from them.

use trace::Sample;

use super::curve::MissCurve;
use super::recency::Recency;

/// Builds a curve.
pub(super) struct Shards {
    sample: Sample,
    keys_max: usize,
    recency: Recency,
    curve: MissCurve,
}

/// What came out.
pub(super) struct SampledCurve {
    pub curve: MissCurve,
    /// Bytes of all objects that were there in the end.
    pub bytes: f64,
    /// Their number.
    pub objects: f64,
    /// Keys that were sampled in the end.
    pub keys: usize,
}

impl Shards {
    /// Of keys that were sampled so before, keeps `keys_max`.
    pub(super) fn new(sampled: Sample, keys_max: usize) -> Shards {
        Shards {
            sample: sampled,
            keys_max: keys_max.max(1),
            recency: Recency::new(),
            curve: MissCurve::default(),
        }
    }

    /// A read of an object of so many bytes.
    pub(super) fn read(&mut self, hash: u64, bytes: u64) {
        if hash > self.sample.threshold() {
            return;
        }
        let weight = 1.0 / self.sample.share();
        match self.recency.touch(hash, bytes) {
            Some(distance) => self.curve.add_hit((distance as f64 * weight) as u64, weight),
            None => self.curve.add_cold(weight),
        }
        self.shrink();
    }

    /// A write of an object, which a cache takes in.
    pub(super) fn write(&mut self, hash: u64, bytes: u64) {
        if hash <= self.sample.threshold() {
            self.recency.touch(hash, bytes);
            self.shrink();
        }
    }

    /// An object is changed by so many bytes at most; it keeps its own, if it has more.
    pub(super) fn merge(&mut self, hash: u64, bytes: u64) {
        self.write(hash, self.recency.bytes_of(hash).unwrap_or(0).max(bytes));
    }

    /// An object is gone.
    pub(super) fn delete(&mut self, hash: u64) {
        self.recency.remove(hash);
    }

    fn shrink(&mut self) {
        while self.recency.len() > self.keys_max {
            let Some(greatest) = self.recency.remove_greatest() else { break };
            self.sample = Sample::up_to(greatest.saturating_sub(1));
        }
    }

    /// The curve of all keys, which were read so often, sampled or not.
    pub(super) fn finish(mut self, reads: u64) -> SampledCurve {
        self.curve.adjust(reads as f64 - self.curve.total());
        let scale = 1.0 / self.sample.share();
        SampledCurve {
            curve: self.curve,
            bytes: self.recency.total() as f64 * scale,
            objects: self.recency.len() as f64 * scale,
            keys: self.recency.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::draw::{Draw, Draws};
    use crate::data::rng::Rng;

    const KEYS: u64 = 50_000;
    const READS: u64 = 1_000_000;
    /// Of a tenth of the keys, at most.
    const KEPT: usize = 5000;

    /// Bytes of a key's object: not all alike.
    fn bytes(key: u64) -> u64 {
        100 + key % 7 * 50
    }

    /// Curves of all keys, and of a sample.
    fn curves(mut key: impl FnMut(u64) -> u64) -> [SampledCurve; 2] {
        let mut all = Shards::new(Sample::ALL, usize::MAX);
        let mut some = Shards::new(Sample::ALL, KEPT);
        for step in 0..READS {
            let key = key(step);
            let hash = Sample::hash(0, &key.to_be_bytes());
            all.read(hash, bytes(key));
            some.read(hash, bytes(key));
        }
        [all.finish(READS), some.finish(READS)]
    }

    /// The greatest difference at sizes of `parts` of all bytes.
    fn error([all, some]: &[SampledCurve; 2], parts: &[f64]) -> f64 {
        assert!(some.keys <= KEPT && all.keys as u64 <= KEYS);
        assert!((some.bytes / all.bytes - 1.0).abs() < 0.05, "{} {}", some.bytes, all.bytes);
        let at = |part: &f64| {
            let size = part * all.bytes;
            (all.curve.miss_ratio(size) - some.curve.miss_ratio(size)).abs()
        };
        parts.iter().map(at).fold(0.0, f64::max)
    }

    const PARTS: [f64; 10] = [0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.2];

    #[test]
    fn a_sample_has_the_curve_of_all_keys() {
        for (draw, skew) in [(Draw::Zipf, 0.03), (Draw::HotSet, 0.03), (Draw::Uniform, 0.02)] {
            let mut draws = Draws::new(draw, KEYS, Rng::new(7));
            let curves = curves(|_| draws.draw());
            let error = error(&curves, &PARTS);
            assert!(error < skew, "{}: {error}", draw.name());
        }
    }

    /// A loop is missed wholly by a cache that is shorter, and hit by one that is longer.
    #[test]
    fn a_sample_finds_the_length_of_a_loop() {
        let curves = curves(|step| step % KEYS);
        assert!(error(&curves, &[0.1, 0.5, 0.9, 1.1]) < 0.02);
        let first = KEYS as f64 / READS as f64;
        let [_, some] = &curves;
        assert!(some.curve.miss_ratio(0.9 * some.bytes) > 0.98);
        assert!((some.curve.miss_ratio(1.1 * some.bytes) - first).abs() < 0.01);
    }

    /// A trace that has one of ten keys leads to the curve of all of them.
    #[test]
    fn a_trace_may_be_a_sample_itself() {
        let (mut draws, tenth) = (Draws::new(Draw::Zipf, KEYS, Rng::new(9)), Sample::one_of(10));
        let mut all = Shards::new(Sample::ALL, usize::MAX);
        let mut some = Shards::new(tenth, usize::MAX);
        for _ in 0..READS {
            let key = draws.draw();
            let hash = Sample::hash(0, &key.to_be_bytes());
            all.read(hash, bytes(key));
            if hash <= tenth.threshold() {
                some.read(hash, bytes(key));
            }
        }
        let [all, some] = [all.finish(READS), some.finish(READS)];
        assert!((some.bytes / all.bytes - 1.0).abs() < 0.05);
        for part in [0.05, 0.1, 0.3, 0.5, 0.9] {
            let [exact, found] = [&all, &some].map(|of| of.curve.miss_ratio(part * all.bytes));
            assert!((exact - found).abs() < 0.05, "{part}: {exact} {found}");
        }
    }

    /// What is deleted takes no room, and is read anew after it was put again.
    #[test]
    fn writes_and_deletions_move_objects() {
        let mut shards = Shards::new(Sample::ALL, usize::MAX);
        shards.write(1, 100);
        shards.write(2, 100);
        shards.delete(2);
        shards.read(1, 100);
        shards.merge(1, 8);
        shards.read(1, 100);
        shards.read(2, 100);
        let SampledCurve { curve, bytes, objects, .. } = shards.finish(3);
        assert_eq!((bytes, objects, curve.total()), (200.0, 2.0, 3.0));
        assert!((curve.miss_ratio(110.0) - 1.0 / 3.0).abs() < 1e-9, "two of three hit");
    }
}
