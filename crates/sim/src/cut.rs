//! Which of the possible images a power cut leaves: all of them where that is affordable, else a graded
//! choice that puts the likely killers first.
//!
//! An image is a choice of one outcome for each [`Doubt`]: for every torn line of memory one of its
//! candidates, for everything that is not durable on the disk one of its versions. Memory and disk lose
//! power together, so their doubts stand in one row. Grades, in order:
//!
//! ```text
//! all        every choice, if there are no more than the limit
//! extremes   nothing kept, everything kept
//! singles    one kept, torn or lost, all others the opposite
//! subsets    whole ones kept or lost in every combination, or else pairs and their complements
//! orders     the oldest k kept, the newest k kept (new bytes without old ones); the same by address
//! random     seeded: whole ones, torn ones, and a mixture
//! ```

use crate::media::Torn;
use base::random::Rng;

/// How much is explored at one crash point.
#[derive(Clone, Copy, Debug)]
pub struct CutLimits {
    /// Every image is taken where there are no more than this many.
    pub exhaustive: usize,
    /// Otherwise: outcomes tried of each doubt while the others are whole.
    pub singles: usize,
    /// Otherwise: images in which each part is kept or lost whole.
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

/// Something that a power cut decides. Outcome 0 is that it is lost.
#[derive(Clone, Copy, Debug)]
pub struct Doubt {
    /// Outcomes, at least two.
    pub count: usize,
    /// The outcome that all of it is kept.
    pub kept: u16,
    /// When it was last changed.
    pub newest: u64,
}

impl From<&Torn> for Doubt {
    fn from(torn: &Torn) -> Self {
        let candidates = &torn.candidates;
        Self { count: torn.count(), kept: candidates.kept as u16, newest: candidates.newest }
    }
}

impl From<ssd::Doubt> for Doubt {
    fn from(doubt: ssd::Doubt) -> Self {
        Self { count: doubt.count, kept: (doubt.count - 1) as u16, newest: doubt.newest }
    }
}

/// Number of images at a point, saturating.
pub fn states(doubts: &[Doubt]) -> u128 {
    doubts.iter().fold(1, |n: u128, d| n.saturating_mul(d.count as u128))
}

/// Calls `each` with choices, one outcome for each of `doubts`, until it returns false. Tells whether it
/// was never stopped. A choice may come twice; images are told apart by hash.
pub fn cuts(
    doubts: &[Doubt],
    limits: &CutLimits,
    rng: &mut Rng,
    each: &mut dyn FnMut(&[u16]) -> bool,
) -> bool {
    if states(doubts) <= limits.exhaustive as u128 {
        return odometer(doubts, each);
    }
    let mut g = Grades {
        lost: vec![0; doubts.len()],
        kept: doubts.iter().map(|d| d.kept).collect(),
        choice: vec![0; doubts.len()],
        doubts,
        each,
    };
    g.extremes()
        && g.singles(limits, rng)
        && g.subsets(limits, rng)
        && g.orders()
        && g.random(limits, rng)
}

fn odometer(doubts: &[Doubt], each: &mut dyn FnMut(&[u16]) -> bool) -> bool {
    let mut choice = vec![0u16; doubts.len()];
    loop {
        if !each(&choice) {
            return false;
        }
        let mut i = 0;
        loop {
            if i == doubts.len() {
                return true;
            }
            choice[i] += 1;
            if usize::from(choice[i]) < doubts[i].count {
                break;
            }
            choice[i] = 0;
            i += 1;
        }
    }
}

struct Grades<'a> {
    doubts: &'a [Doubt],
    lost: Vec<u16>,
    kept: Vec<u16>,
    choice: Vec<u16>,
    each: &'a mut dyn FnMut(&[u16]) -> bool,
}

impl Grades<'_> {
    fn emit(&mut self) -> bool {
        (self.each)(&self.choice)
    }

    /// Emits the choice that keeps exactly those for which `keep` holds.
    fn whole(&mut self, keep: impl Fn(usize) -> bool) -> bool {
        for i in 0..self.doubts.len() {
            self.choice[i] = if keep(i) { self.kept[i] } else { self.lost[i] };
        }
        self.emit()
    }

    fn extremes(&mut self) -> bool {
        self.whole(|_| false) && self.whole(|_| true)
    }

    fn singles(&mut self, limits: &CutLimits, rng: &mut Rng) -> bool {
        for i in 0..self.doubts.len() {
            if !(self.whole(|j| j == i) && self.whole(|j| j != i)) {
                return false;
            }
            let count = self.doubts[i].count;
            for n in 0..limits.singles.min(count) {
                let pick = if count <= limits.singles { n } else { rng.index(count) };
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
        let n = self.doubts.len();
        if n < usize::BITS as usize - 1 && 1usize << n <= limits.subsets {
            return (0..1usize << n).all(|set| self.whole(|i| set >> i & 1 == 1));
        }
        let pairs = n * (n - 1) / 2;
        if pairs * 2 <= limits.subsets {
            return (0..n).all(|a| (a + 1..n).all(|b| self.pair(a, b)));
        }
        (0..limits.subsets / 2).all(|_| {
            let (a, b) = (rng.index(n), rng.index(n));
            self.pair(a, b)
        })
    }

    fn pair(&mut self, a: usize, b: usize) -> bool {
        self.whole(|i| i == a || i == b) && self.whole(|i| i != a && i != b)
    }

    fn orders(&mut self) -> bool {
        let mut by_age: Vec<usize> = (0..self.doubts.len()).collect();
        by_age.sort_by_key(|&i| (self.doubts[i].newest, i));
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
        (0..limits.random).all(|n| {
            draw(self.doubts, n, rng, &mut self.choice);
            self.emit()
        })
    }
}

/// A random choice, one outcome for each of `doubts`, the `n`-th at its point: whole ones, torn ones, and a mixture.
pub fn draw(doubts: &[Doubt], n: usize, rng: &mut Rng, choice: &mut [u16]) {
    let torn = match n % 3 {
        0 => 0,
        1 => 100,
        _ => 20,
    };
    for (doubt, choice) in doubts.iter().zip(choice) {
        *choice = if rng.percent(torn) {
            rng.index(doubt.count) as u16
        } else if rng.percent(50) {
            doubt.kept
        } else {
            0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Event, StoreKind};
    use crate::media::{Media, Mode};
    use pmem::Site;

    fn doubts(lines: u32) -> Vec<Doubt> {
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
        media.torn().iter().map(Doubt::from).collect()
    }

    #[test]
    fn all_choices_when_few() {
        let mut seen = Vec::new();
        let doubts = doubts(3);
        assert_eq!(states(&doubts), 8);
        assert!(cuts(&doubts, &CutLimits::default(), &mut Rng::new(1), &mut |c| {
            seen.push(c.to_vec());
            true
        }));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 8);
    }

    #[test]
    fn graded_choices_hold_the_extremes_and_stop_on_demand() {
        let doubts = doubts(16);
        let (mut none, mut all, mut newest_only, mut n) = (false, false, false, 0);
        let limits = CutLimits::default();
        assert!(cuts(&doubts, &limits, &mut Rng::new(1), &mut |c| {
            none |= c.iter().all(|&x| x == 0);
            all |= c.iter().all(|&x| x == 1);
            newest_only |= c[15] == 1 && c[..15].iter().all(|&x| x == 0);
            n += 1;
            true
        }));
        assert!(none && all && newest_only && n < 1000);
        assert!(!cuts(&doubts, &limits, &mut Rng::new(1), &mut |_| false));
    }
}
