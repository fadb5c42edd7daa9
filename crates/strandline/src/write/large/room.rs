//! L1's room: zones, space for index runs and DRAM for indexes are there for the whole commit before anything is written.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{Error, ErrorKind, Result};

use crate::engine::{Claim, Engine};
use crate::keyspace::subrange::SubrangeName;
use crate::record::format::Kind;
use crate::record::zone::Zone;
use crate::throttle::HELP_DEBT;
use crate::write::large::{LargeCommit, StagedZone};
use crate::write::op::claim_of;
use crate::write::slowdown::Slowdown;

/// DRAM that the index takes for a record: 14 bytes for most keys, up to 45 for long ones that hardly share anything.
const DRAM_PER_RECORD: u64 = 32;
/// The same of a range deletion, its keys aside: an edge of a tree, and the way to it.
const DRAM_PER_RANGE: u64 = 768;

/// What a large commit takes.
struct LargeNeeds {
    claim: Claim,
    /// The subrange of each zone.
    whose: Vec<SubrangeName>,
    /// Bytes of records.
    bytes: u64,
    dram: u64,
    run_bytes: u64,
}

impl LargeCommit<'_, '_> {
    /// Takes zones, and reserves what their index will take. Waits as other commits do; gives all back if it fails.
    pub(super) fn take_room(&mut self) -> Result<()> {
        let engine = self.engine;
        let mut plans = Vec::with_capacity(self.groups.len());
        let mut needs = LargeNeeds {
            claim: self.way.claim(claim_of(&self.ops)),
            whose: Vec::new(),
            bytes: 0,
            dram: 0,
            run_bytes: 0,
        };
        for group in &self.groups {
            let plan = self.plan(group)?;
            let bytes: u64 = plan.iter().map(|zone| zone.len).sum();
            let name = SubrangeName { keyspace: group.space.id, subrange: group.subrange.id };
            needs.whose.extend(plan.iter().map(|_| name));
            needs.bytes += bytes;
            needs.run_bytes += engine.space.run_bytes_max(group.ops.len() as u64, bytes);
            plans.push(plan);
        }
        for op in self.ops.iter() {
            needs.dram += match op.kind {
                Kind::RangeDelete => {
                    DRAM_PER_RANGE + (op.stored_key().len() + op.stored_value().len()) as u64
                }
                _ => DRAM_PER_RECORD,
            };
        }
        self.pay(needs.bytes)?;
        self.turn.reserve(needs.dram, needs.run_bytes);
        let mut zones = engine.await_staged(&needs, self.way.slowdown)?.into_iter();
        for (group, plan) in self.groups.iter_mut().zip(plans) {
            for (plan, zone) in plan.into_iter().zip(zones.by_ref()) {
                group.memtable.push_zone(Arc::clone(&zone));
                group.zones.push(StagedZone { zone, plan });
            }
        }
        Ok(())
    }

    /// Pays back-pressure for as many commits as it might have been.
    fn pay(&self, bytes: u64) -> Result<()> {
        let (engine, each) = (self.engine, self.engine.commit_bytes_max());
        let throttle = &engine.background.throttle;
        let threads = engine.options().background_threads > 0;
        for _ in 0..bytes.div_ceil(each) {
            if throttle.debt() == 0 {
                return Ok(());
            }
            match self.way.slowdown {
                Slowdown::Refused if throttle.debt() >= HELP_DEBT => {
                    return Err(engine.busy("background work is behind"));
                }
                Slowdown::Refused => return Ok(()),
                _ if threads => _ = throttle.slow_alone(each),
                _ if throttle.debt() >= HELP_DEBT => engine.work_off()?,
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Waits until all zones that a large commit needs are there at once, and DRAM for its index.
    fn await_staged(&self, needs: &LargeNeeds, slowdown: Slowdown) -> Result<Vec<Arc<Zone>>> {
        let zone_len = self.media.pool.geometry().zone_len();
        let len = needs.whose.len() as u64 * zone_len;
        self.check_large(needs)?;
        let base_seq = self.sequence.sequencer.next_seq();
        let mut lacks_dram = false;
        let taken = self.await_space(len, slowdown, || {
            lacks_dram = !self.has_dram_for(needs.dram);
            if lacks_dram {
                return Ok(None);
            }
            let zones = self.grant_staged(needs.claim, &needs.whose, needs.bytes, base_seq);
            if let Some(zones) = &zones {
                self.background.throttle.granted.fetch_add(zones.len() as u64, Relaxed);
            }
            Ok(zones)
        });
        match taken {
            Err(error) if lacks_dram && error.kind() == ErrorKind::NoSpace => {
                Err(self.no_dram(needs))
            }
            taken => taken,
        }
    }

    /// The error for a batch that needs so many zones.
    #[cold]
    pub(super) fn too_many_zones(&self, zones: usize, claim: Claim, run_bytes: u64) -> Error {
        let geometry = self.media.pool.geometry();
        let text = format!(
            "a batch needs {zones} zones of {} bytes at once; {} has {}, and {} of them for batches beside the space that flushes and \
             cleaning need; split it, or make a larger pool (pm_size)",
            geometry.zone_len(),
            self.media.region.describe(),
            geometry.zones(),
            self.zones_at_most(claim, run_bytes)
        );
        Error::new(ErrorKind::NoSpace, "write", text)
    }

    fn no_dram(&self, needs: &LargeNeeds) -> Error {
        let text = format!(
            "the index of a batch of {} bytes may take {} bytes of DRAM; indexes have {}, for all that is there; split it, or \
             raise dram_budget",
            needs.bytes,
            needs.dram,
            self.index_budget()
        );
        Error::new(ErrorKind::NoSpace, "write", text)
    }

    /// Refuses at once what no reclaiming makes room for.
    fn check_large(&self, needs: &LargeNeeds) -> Result<()> {
        let zones = needs.whose.len();
        if zones > self.zones_at_most(needs.claim, needs.run_bytes) as usize {
            return Err(self.too_many_zones(zones, needs.claim, needs.run_bytes));
        }
        if needs.dram > self.index_budget() { Err(self.no_dram(needs)) } else { Ok(()) }
    }
}
