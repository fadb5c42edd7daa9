//! Crash points explored by recoveries that decide as they read, on one disk after the other.

use std::sync::Arc;

use ssd::Disk;

use crate::check::Violation;
use crate::cut::cuts;
use crate::explore::{Explorer, Point, guard};
use crate::files::{Files, Survivors};
use crate::media::patch;
use crate::pm::SimPm;
use crate::system::System;
use base::random::Rng;

impl<S: System> Explorer<'_, S> {
    /// Runs recoveries lazily on each of a few disks that may survive; memory decides as it is read.
    pub(crate) fn each_disk_lazily(
        &mut self,
        point: &Point<'_, '_>,
        durable: &[u8],
        survivors: &mut Survivors,
        most: u32,
    ) -> Result<(), Violation> {
        let mut choices = Vec::new();
        let mut rng = Rng::fork(point.case.seed, point.hash.rotate_left(19) ^ point.event as u64);
        cuts(point.on_disk, &self.limits.deep, &mut rng, &mut |choice| {
            choices.push(choice.to_vec());
            true
        });
        let each = most.div_ceil(choices.len() as u32);
        choices.iter().try_for_each(|choice| {
            let files = Arc::clone(&survivors.get(choice).disk);
            self.lazily(point, durable, choice, &files, each)
        })
    }

    fn lazily(
        &mut self,
        point: &Point<'_, '_>,
        durable: &[u8],
        on_disk: &[u16],
        files: &Arc<Disk>,
        most: u32,
    ) -> Result<(), Violation> {
        let lazy = Arc::clone(&self.lazy);
        lazy.begin(point.torn);
        for _ in 0..most {
            let region = lazy.region(durable, self.limits.fuel, self.lazy_spare.take());
            let fs = self.lazy_files.boot(files, &lazy);
            let opened = guard(|| self.open(region, fs));
            let mut leaf = lazy.leaf();
            leaf.choice.extend(on_disk);
            let totals = &mut self.counters.totals;
            totals.lazy_leaves += 1;
            totals.lazy_states =
                totals.lazy_states.saturating_add(leaf.states.min(u64::MAX.into()) as u64);
            match opened {
                Ok((store, outcome)) if point.expect.check(&outcome).is_some() => {
                    self.lazy_spare = self.system.close(store);
                    self.tally(point, &leaf.choice, outcome.cut);
                }
                Err(v) if !point.expect.created() && v.says_unmade() => totals.unmade += 1,
                Err(v) => return Err(v.after(point.describe_cut(&leaf.choice))),
                // Wrong: recovered once more from the image that the choice makes, to say what is.
                Ok(_) => {
                    let mut image = durable.to_vec();
                    patch(&mut image, point.torn, &leaf.choice);
                    let pm = SimPm::recorder(None);
                    let fs = Files::default().boot(files, &pm);
                    let violation = self.explain(point, pm.region(&image, None), fs);
                    return Err(violation.after(point.describe_cut(&leaf.choice)));
                }
            }
            if !lazy.advance() {
                return Ok(());
            }
        }
        self.counters.totals.truncated += 1;
        Ok(())
    }
}
