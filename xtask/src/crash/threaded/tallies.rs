//! What the campaigns with threads did, counted, and the floors below which they prove nothing.

use std::collections::BTreeSet;
use std::fmt;

use pmem::Site;
use sim::{Event, Schedule};

use super::life::Life;

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub worlds: u64,
    pub points: u64,
    pub images: u64,
    /// Points with two or more commits in flight.
    pub in_flight: u64,
    /// Points inside recoveries.
    pub in_recovery: u64,
    pub kills: u64,
    pub follows: u64,
    pub copies: u64,
    pub commits: u64,
    pub refused: u64,
    pub reads: u64,
    pub checkpoints: u64,
    pub ingests: u64,
    pub drops: u64,
    pub syncs: u64,
    pub parted: u64,
    pub splits: u64,
    /// Lives that ended with a run of tens of blocks.
    pub long_runs: u64,
    /// Commits that no zone takes.
    pub large: u64,
    /// Recoveries in which several threads flushed.
    pub parallel_recoveries: u64,
    pub events: u64,
    /// Different orders of threads.
    pub schedules: BTreeSet<u64>,
    /// Points behind an event of a site, in the order of [`Site::ALL`].
    pub sites: [u64; Site::ALL.len()],
}

impl Counts {
    /// Counts a first life.
    pub fn world(&mut self, life: &Life) {
        self.worlds += 1;
        self.events += life.log.len() as u64;
        self.schedules.insert(Schedule::hash(&life.log));
        self.lived(life);
        self.splits += u64::from(life.tally.subranges > 2);
    }

    /// Counts a life that followed a crash.
    pub fn followed(&mut self, life: &Life) {
        self.follows += 1;
        self.lived(life);
    }

    fn lived(&mut self, life: &Life) {
        let tally = &life.tally;
        self.commits += tally.commits;
        self.refused += tally.refused;
        self.reads += tally.reads;
        self.checkpoints += tally.checkpoints;
        self.ingests += tally.ingests;
        self.drops += tally.drops;
        self.syncs += tally.syncs;
        self.parted += tally.parted;
        self.long_runs += u64::from(tally.long_runs);
        self.large += tally.large;
    }

    /// Counts an image, and the recovery from it.
    pub fn image(&mut self, life: &Life) {
        self.images += 1;
        let flushes = life.log.events[..life.born].iter().filter_map(|event| match *event {
            Event::Flush { thread, site: Site::RecoverAccepted, .. } => Some(thread),
            _ => None,
        });
        let threads: BTreeSet<u16> = flushes.collect();
        self.parallel_recoveries += u64::from(threads.len() > 1);
    }

    /// Counts a point at which a life is cut.
    pub fn point(&mut self, life: &Life, event: usize, depth: usize) {
        self.points += 1;
        self.in_flight += u64::from(life.diary.in_flight(event) >= 2);
        self.in_recovery += u64::from(depth > 0 && event <= life.born);
        let last = life.log.events[..event].iter().rev().find_map(|event| event.site());
        if let Some(site) = last {
            self.sites[site as usize] += 1;
        }
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: Counts) {
        for (mine, theirs) in self.all_mut().into_iter().zip(other.all()) {
            *mine.1 += theirs.1;
        }
        self.schedules.extend(other.schedules);
        self.sites.iter_mut().zip(other.sites).for_each(|(mine, theirs)| *mine += theirs);
    }

    fn all_mut(&mut self) -> Vec<(&'static str, &mut u64)> {
        vec![
            ("worlds", &mut self.worlds),
            ("points", &mut self.points),
            ("images", &mut self.images),
            ("in_flight", &mut self.in_flight),
            ("in_recovery", &mut self.in_recovery),
            ("kills", &mut self.kills),
            ("follows", &mut self.follows),
            ("copies", &mut self.copies),
            ("commits", &mut self.commits),
            ("refused", &mut self.refused),
            ("reads", &mut self.reads),
            ("checkpoints", &mut self.checkpoints),
            ("ingests", &mut self.ingests),
            ("drops", &mut self.drops),
            ("syncs", &mut self.syncs),
            ("parted", &mut self.parted),
            ("splits", &mut self.splits),
            ("long_runs", &mut self.long_runs),
            ("large", &mut self.large),
            ("parallel_recoveries", &mut self.parallel_recoveries),
            ("events", &mut self.events),
        ]
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        let mut counts = self.clone();
        let mut all: Vec<_> = counts.all_mut().into_iter().map(|(name, n)| (name, *n)).collect();
        all.push(("schedules", self.schedules.len() as u64));
        all
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "with real threads:")?;
        for (name, count) in self.all().into_iter().filter(|count| count.1 > 0) {
            writeln!(f, "{name:>20} {count}")?;
        }
        for (site, points) in Site::ALL.iter().zip(self.sites).filter(|site| site.1 > 0) {
            writeln!(f, "{:>20} {points} points", format!("{site:?}"))?;
        }
        Ok(())
    }
}
