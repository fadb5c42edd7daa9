//! Ranks by Zipf's law, for any exponent.

use super::rng::Rng;

/// Ranks by Zipf's law, the most frequent first. By inverting the integral of the law and rejecting what lies above it
/// (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS
/// 6(3), 1996): exact for every exponent above 0, and with nothing to sum up before, however many ranks there are.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    law: Law,
    bound: u64,
    /// The integral at the first rank and behind the last.
    ends: [f64; 2],
    /// What is so near to its rank needs no look at the law.
    near: f64,
}

impl Zipf {
    pub(super) fn new(exponent: f64, bound: u64) -> Zipf {
        let law = Law { exponent };
        let ends = [law.integral(1.5) - 1.0, law.integral(bound as f64 + 0.5)];
        let near = 2.0 - law.inverse(law.integral(2.5) - law.at(2.0));
        Zipf { law, bound, ends, near }
    }

    /// A rank below the bound.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let [first, last] = self.ends;
        loop {
            let area = last + rng.part() * (first - last);
            let place = self.law.inverse(area);
            let rank = (place + 0.5).floor().clamp(1.0, self.bound as f64);
            let under = || area >= self.law.integral(rank + 0.5) - self.law.at(rank);
            if rank - place <= self.near || under() {
                return rank as u64 - 1;
            }
        }
    }
}

/// The law, and the integral from 1 by which it is drawn.
#[derive(Clone, Copy, Debug)]
struct Law {
    exponent: f64,
}

impl Law {
    /// How often a rank comes, not divided by the sum of all.
    fn at(self, rank: f64) -> f64 {
        (-self.exponent * rank.ln()).exp()
    }

    /// For an exponent of 1 the logarithm, which the quotient nears from both sides.
    fn integral(self, rank: f64) -> f64 {
        let log = rank.ln();
        log * quotient(f64::exp_m1, (1.0 - self.exponent) * log)
    }

    /// The rank up to which the integral is `area`.
    fn inverse(self, area: f64) -> f64 {
        // Rounding may lead below what the integral can be.
        let part = ((1.0 - self.exponent) * area).max(-1.0);
        (area * quotient(f64::ln_1p, part)).exp()
    }
}

/// `function(x) / x` of a function whose slope at 0 is 1.
fn quotient(function: fn(f64) -> f64, x: f64) -> f64 {
    if x.abs() < f64::EPSILON { 1.0 } else { function(x) / x }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: usize = 400_000;

    #[test]
    fn each_rank_comes_as_often_as_the_law_says() {
        for exponent in [0.5, 0.99, 1.0, 1.2, 3.0] {
            for bound in [1, 2, 3, 1000] {
                let law = Law { exponent };
                let sum: f64 = (1..=bound).map(|rank| law.at(rank as f64)).sum();
                let (zipf, mut rng) = (Zipf::new(exponent, bound), Rng::new(5));
                let mut counts = vec![0; bound as usize];
                (0..DRAWN).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
                for rank in [1, 2, 3, 10, 100, 1000].into_iter().filter(|rank| *rank <= bound) {
                    let share = law.at(rank as f64) / sum;
                    let (wanted, found) =
                        (share * DRAWN as f64, f64::from(counts[rank as usize - 1]));
                    // Five standard deviations.
                    let most = 5.0 * (wanted * (1.0 - share)).sqrt() + 1.0;
                    assert!(
                        (found - wanted).abs() < most,
                        "{exponent} {bound} {rank}: {found}, {wanted}"
                    );
                }
            }
        }
    }

    /// The sum over all ranks, which no single one would show.
    #[test]
    fn distances_from_the_law_are_those_of_chance() {
        for exponent in [0.5, 0.99, 1.0, 1.2] {
            let (law, bound) = (Law { exponent }, 100);
            let sum: f64 = (1..=bound).map(|rank| law.at(rank as f64)).sum();
            let (zipf, mut rng) = (Zipf::new(exponent, bound), Rng::new(11));
            let mut counts = vec![0.0; bound as usize];
            (0..DRAWN).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1.0);
            let squares = counts.iter().zip(1..).map(|(found, rank)| {
                let wanted = law.at(f64::from(rank)) / sum * DRAWN as f64;
                (found - wanted).powi(2) / wanted
            });
            // Chi squared with 99 degrees of freedom: one in 10,000 is above 158.
            assert!(squares.sum::<f64>() < 158.0, "{exponent}");
        }
    }

    #[test]
    fn exponents_beside_1_are_as_smooth_as_others() {
        for exponent in [1.0 - 1e-9, 1.0, 1.0 + 1e-9] {
            let law = Law { exponent };
            for rank in [1.0, 2.5, 1e3, 1e9] {
                assert!((law.integral(rank) - f64::ln(rank)).abs() < 1e-6, "{exponent} {rank}");
                assert!((law.inverse(law.integral(rank)) / rank - 1.0).abs() < 1e-9);
            }
        }
    }
}
