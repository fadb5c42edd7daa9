//! Campaigns over many seeds, hunts for mutants, and the shrinking of what fails.

use std::ops::Range;

use crate::campaign::Counters;
use crate::case::{Case, Failure};
use crate::explore::{Explorer, Limits};
use crate::media::Mode;
use crate::op::Shape;
use crate::sabotage::Planted;
use crate::system::System;

/// Explores the cases of `seeds`; the first that fails is shrunk.
pub fn campaign<S: System>(
    system: &S,
    shape: &Shape,
    mode: Mode,
    seeds: Range<u64>,
    limits: &Limits,
) -> Result<Counters, Box<Failure>> {
    let mut explorer = Explorer::new(system, limits.clone());
    for seed in seeds {
        explorer
            .run(&Case::new(seed, shape, mode))
            .map_err(|failure| shrink(system, limits, failure))?;
    }
    Ok(explorer.counters)
}

/// What became of a mutant.
#[derive(Debug)]
pub enum Verdict {
    /// Noticed; this is how.
    Killed(Box<Failure>),
    /// The fault struck, and nothing was noticed.
    Survived,
    /// The fault never struck: the workload does not reach it.
    NeverStruck,
}

impl Verdict {
    /// Whether the mutant was noticed.
    pub fn is_killed(&self) -> bool {
        matches!(self, Verdict::Killed(_))
    }
}

/// Explores the cases of `seeds` with a fault planted, until it is noticed. With no sabotage the fault is
/// one of the system's own, which always strikes. Counts go to `counters`.
pub fn hunt<S: System>(
    system: &S,
    shape: &Shape,
    mode: Mode,
    seeds: Range<u64>,
    limits: &Limits,
    sabotage: Option<impl Into<Planted>>,
    counters: &mut Counters,
) -> Verdict {
    let sabotage: Option<Planted> = sabotage.map(Into::into);
    let mut explorer = Explorer::new(system, limits.clone());
    let found = seeds
        .map(|seed| Case::new(seed, shape, mode).sabotaged(sabotage))
        .find_map(|case| explorer.run(&case).err());
    let struck = sabotage.is_none() || explorer.counters.totals.struck > 0;
    counters.totals.mutants += 1;
    counters.totals.images += explorer.counters.totals.images;
    counters.totals.struck += explorer.counters.totals.struck;
    match found {
        Some(failure) => {
            counters.totals.killed += 1;
            Verdict::Killed(failure)
        }
        None if struck => Verdict::Survived,
        None => Verdict::NeverStruck,
    }
}

/// Images per attempt at shrinking.
const SHRINK_IMAGES: u64 = 50_000;

/// Makes a failing case smaller while it still fails: fewer operations, a simpler schedule, and with
/// that the first crash point and the first image that fail. Deterministic.
pub fn shrink<S: System>(system: &S, limits: &Limits, failure: Box<Failure>) -> Box<Failure> {
    let limits = Limits { max_images: limits.max_images.min(SHRINK_IMAGES), ..limits.clone() };
    let run = |case: &Case| Explorer::new(system, limits.clone()).run(case).err();
    let mut best = failure;
    best = run(&Case { eager: true, ..best.case.clone() }).unwrap_or(best);
    // Fewer operations are no gain if it takes more crashes in a row.
    let crashes = best.violation.trail.len();
    let fails = |case: &Case| run(case).filter(|f| f.violation.trail.len() <= crashes);
    let mut chunk = best.case.ops.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut shorter = false;
        while at < best.case.ops.len() {
            let mut case = best.case.clone();
            case.ops.drain(at..(at + chunk).min(case.ops.len()));
            if case.ops.is_empty() {
                break;
            }
            match fails(&case) {
                Some(failure) => (best, shorter) = (failure, true),
                None => at += chunk,
            }
        }
        if chunk == 1 && !shorter {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    let mut keep = 0;
    while keep < best.case.schedule.len() {
        let mut case = best.case.clone();
        case.schedule.truncate(keep);
        if let Some(failure) = fails(&case) {
            best = failure;
            break;
        }
        keep = (keep * 2).max(1);
    }
    best
}
