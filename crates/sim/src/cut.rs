//! Which of the possible images a power cut leaves: all of them where that is affordable, else a graded
//! choice that puts the likely killers first.
//!
//! An image is a choice of one candidate per torn line. Grades, in order:
//!
//! ```text
//! all        every choice, if there are no more than the limit
//! extremes   nothing kept, everything kept
//! singles    one line kept, torn or lost, all others the opposite
//! subsets    whole lines kept or lost in every combination, or else pairs and their complements
//! orders     the oldest k kept, the newest k kept (new bytes without old ones); the same by address
//! random     seeded: whole lines, torn lines, and a mixture
//! ```

use crate::media::Torn;
use crate::rng::Rng;

/// How much is explored at one crash point.
#[derive(Clone, Copy, Debug)]
pub struct CutLimits {
    /// Every image is taken where there are no more than this many.
    pub exhaustive: usize,
    /// Otherwise: torn contents tried per line while the others are whole.
    pub singles: usize,
    /// Otherwise: images of whole lines kept or lost.
    pub subsets: usize,
    /// Otherwise: random images.
    pub random: usize,
}

impl Default for CutLimits {
    fn default() -> Self {
        Self { exhaustive: 4096, singles: 24, subsets: 256, random: 200 }
    }
}

impl CutLimits {
    /// Some dozens of images per point, for crashes inside crashes.
    pub fn small() -> Self {
        Self { exhaustive: 64, singles: 4, subsets: 16, random: 16 }
    }
}

/// Number of images at a point, saturating.
pub fn states(torn: &[Torn]) -> u128 {
    torn.iter().fold(1, |n: u128, t| n.saturating_mul(t.count() as u128))
}

/// Calls `each` with choices, one candidate per line of `torn`, until it returns false. Tells whether it
/// was never stopped. A choice may come twice; images are told apart by hash.
pub fn cuts(
    torn: &[Torn],
    limits: &CutLimits,
    rng: &mut Rng,
    each: &mut dyn FnMut(&[u16]) -> bool,
) -> bool {
    if states(torn) <= limits.exhaustive as u128 {
        return odometer(torn, each);
    }
    let mut g = Grades {
        lost: vec![0; torn.len()],
        kept: torn.iter().map(|t| t.candidates.kept as u16).collect(),
        choice: vec![0; torn.len()],
        torn,
        each,
    };
    g.extremes()
        && g.singles(limits, rng)
        && g.subsets(limits, rng)
        && g.orders()
        && g.random(limits, rng)
}

fn odometer(torn: &[Torn], each: &mut dyn FnMut(&[u16]) -> bool) -> bool {
    let mut choice = vec![0u16; torn.len()];
    loop {
        if !each(&choice) {
            return false;
        }
        let mut i = 0;
        loop {
            if i == torn.len() {
                return true;
            }
            choice[i] += 1;
            if usize::from(choice[i]) < torn[i].count() {
                break;
            }
            choice[i] = 0;
            i += 1;
        }
    }
}

struct Grades<'a> {
    torn: &'a [Torn],
    lost: Vec<u16>,
    kept: Vec<u16>,
    choice: Vec<u16>,
    each: &'a mut dyn FnMut(&[u16]) -> bool,
}

impl Grades<'_> {
    fn emit(&mut self) -> bool {
        (self.each)(&self.choice)
    }

    /// Emits the choice that keeps exactly the lines for which `keep` holds.
    fn whole(&mut self, keep: impl Fn(usize) -> bool) -> bool {
        for i in 0..self.torn.len() {
            self.choice[i] = if keep(i) { self.kept[i] } else { self.lost[i] };
        }
        self.emit()
    }

    fn extremes(&mut self) -> bool {
        self.whole(|_| false) && self.whole(|_| true)
    }

    fn singles(&mut self, limits: &CutLimits, rng: &mut Rng) -> bool {
        for i in 0..self.torn.len() {
            if !(self.whole(|j| j == i) && self.whole(|j| j != i)) {
                return false;
            }
            let count = self.torn[i].count();
            for n in 0..limits.singles.min(count) {
                let pick = if count <= limits.singles { n } else { rng.below(count) };
                for others in [&self.lost, &self.kept] {
                    self.choice.copy_from_slice(others);
                    self.choice[i] = pick as u16;
                    if !(self.each)(&self.choice) {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn subsets(&mut self, limits: &CutLimits, rng: &mut Rng) -> bool {
        let n = self.torn.len();
        if n < usize::BITS as usize - 1 && 1usize << n <= limits.subsets {
            return (0..1usize << n).all(|set| self.whole(|i| set >> i & 1 == 1));
        }
        let pairs = n * (n - 1) / 2;
        if pairs * 2 <= limits.subsets {
            return (0..n).all(|a| (a + 1..n).all(|b| self.pair(a, b)));
        }
        (0..limits.subsets / 2).all(|_| {
            let (a, b) = (rng.below(n), rng.below(n));
            self.pair(a, b)
        })
    }

    fn pair(&mut self, a: usize, b: usize) -> bool {
        self.whole(|i| i == a || i == b) && self.whole(|i| i != a && i != b)
    }

    fn orders(&mut self) -> bool {
        let mut by_age: Vec<usize> = (0..self.torn.len()).collect();
        by_age.sort_by_key(|&i| (self.torn[i].candidates.newest, i));
        let mut rank = vec![0; by_age.len()];
        by_age.iter().enumerate().for_each(|(r, &i)| rank[i] = r);
        (1..rank.len()).all(|k| {
            self.whole(|i| rank[i] < k)
                && self.whole(|i| rank[i] >= k)
                && self.whole(|i| i < k)
                && self.whole(|i| i >= k)
        })
    }

    fn random(&mut self, limits: &CutLimits, rng: &mut Rng) -> bool {
        for n in 0..limits.random {
            for i in 0..self.torn.len() {
                let torn = match n % 3 {
                    0 => 0,
                    1 => 100,
                    _ => 20,
                };
                self.choice[i] = if rng.percent(torn) {
                    rng.below(self.torn[i].count()) as u16
                } else if rng.percent(50) {
                    self.kept[i]
                } else {
                    self.lost[i]
                };
            }
            if !self.emit() {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Event, StoreKind};
    use crate::media::{Media, Mode};
    use pmem::Site;

    fn torn(lines: u32) -> Vec<Torn> {
        let mut media = Media::new(Mode::Adr, &[0; 1024]);
        for line in 0..lines {
            let event = Event::Store {
                at: line * 64,
                len: 8,
                data: 0,
                kind: StoreKind::Word,
                thread: 0,
                site: Site::Record,
            };
            media.apply(&event, &[1; 8]);
        }
        media.torn()
    }

    #[test]
    fn all_choices_when_few() {
        let mut seen = Vec::new();
        let torn = torn(3);
        assert_eq!(states(&torn), 8);
        assert!(cuts(&torn, &CutLimits::default(), &mut Rng::new(1), &mut |c| {
            seen.push(c.to_vec());
            true
        }));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 8);
    }

    #[test]
    fn graded_choices_hold_the_extremes_and_stop_on_demand() {
        let torn = torn(16);
        let (mut none, mut all, mut newest_only, mut n) = (false, false, false, 0);
        let limits = CutLimits::default();
        assert!(cuts(&torn, &limits, &mut Rng::new(1), &mut |c| {
            none |= c.iter().all(|&x| x == 0);
            all |= c.iter().all(|&x| x == 1);
            newest_only |= c[15] == 1 && c[..15].iter().all(|&x| x == 0);
            n += 1;
            true
        }));
        assert!(none && all && newest_only && n < 1000);
        assert!(!cuts(&torn, &limits, &mut Rng::new(1), &mut |_| false));
    }
}
