//! Miss-ratio curves: the share of reads that a cache of each size would miss.

/// Steps of sizes in each power of two: sizes are told to 1.6 %.
const STEPS: u32 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Reads by the bytes of the smallest cache that would have hit.
#[derive(Clone, Default)]
pub(super) struct MissCurve {
    /// Weight of reads in each step of sizes.
    hits: Vec<f64>,
    /// Weight of reads that no cache would have hit: the first of each object.
    cold: f64,
}

/// The step that `bytes` is in.
fn step(bytes: u64) -> usize {
    let bytes = bytes.max(1);
    let power = bytes.ilog2();
    let place = match power.checked_sub(STEP_BITS) {
        Some(shift) => (bytes >> shift) - u64::from(STEPS),
        None => (bytes << (STEP_BITS - power)) - u64::from(STEPS),
    };
    (power * STEPS) as usize + place as usize
}

/// The smallest size in a step.
fn begin(step: usize) -> f64 {
    let (power, place) = (step as u32 / STEPS, step as u32 % STEPS);
    f64::from(power).exp2() * (1.0 + f64::from(place) / f64::from(STEPS))
}

impl MissCurve {
    /// Adds a read that a cache of `bytes` would hit.
    pub(super) fn add_hit(&mut self, bytes: u64, weight: f64) {
        let at = step(bytes);
        if self.hits.len() <= at {
            self.hits.resize(at + 1, 0.0);
        }
        self.hits[at] += weight;
    }

    /// Adds a read that no cache would hit.
    pub(super) fn add_cold(&mut self, weight: f64) {
        self.cold += weight;
    }

    /// Adds to reads that the smallest cache hits, or takes from them; never below none.
    pub(super) fn adjust(&mut self, weight: f64) {
        if self.hits.is_empty() {
            self.hits.push(0.0);
        }
        self.hits[0] += weight;
        // What cannot be taken there is taken from the next.
        let mut lack = 0.0_f64;
        for hits in &mut self.hits {
            *hits += lack;
            lack = hits.min(0.0);
            *hits = hits.max(0.0);
            if lack == 0.0 {
                break;
            }
        }
    }

    /// Weight of all reads.
    pub(super) fn total(&self) -> f64 {
        self.hits.iter().sum::<f64>() + self.cold
    }

    /// The share of reads that a cache of `bytes` misses; 1 if there are none.
    pub(super) fn miss_ratio(&self, bytes: f64) -> f64 {
        let total = self.total();
        if total <= 0.0 || bytes < 1.0 {
            return 1.0;
        }
        let at = step(bytes as u64).min(self.hits.len());
        let below: f64 = self.hits[..at].iter().sum();
        // The part of a step that is below, if its reads are spread evenly.
        let part = ((bytes - begin(at)) / (begin(at + 1) - begin(at))).clamp(0.0, 1.0);
        let within = self.hits.get(at).map_or(0.0, |hits| hits * part);
        1.0 - (below + within) / total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_narrow_and_in_order() {
        let sizes =
            (0..40).flat_map(|power| [1_u64 << power, (1 << power) * 3 / 2, (2 << power) - 1]);
        let mut before = 0;
        for bytes in sizes {
            let at = step(bytes);
            assert!(at >= before && begin(at) <= bytes as f64, "{bytes}");
            assert!(begin(at + 1) > bytes as f64 && begin(at + 1) <= begin(at) * 1.016, "{bytes}");
            before = at;
        }
    }

    #[test]
    fn a_curve_falls_from_1_to_cold_misses() {
        let mut curve = MissCurve::default();
        assert_eq!(curve.miss_ratio(1e9), 1.0);
        curve.add_hit(1000, 2.0);
        curve.add_hit(100_000, 1.0);
        curve.add_cold(1.0);
        let ratios = [0.0, 900.0, 1100.0, 90_000.0, 110_000.0, 1e12].map(|at| curve.miss_ratio(at));
        assert_eq!(ratios, [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]);
        curve.adjust(4.0);
        assert_eq!((curve.total(), curve.miss_ratio(2.0)), (8.0, 0.5));
        curve.adjust(-5.0);
        assert_eq!(curve.total(), 3.0);
        assert!((curve.miss_ratio(2000.0) - 2.0 / 3.0).abs() < 1e-9);
    }
}
