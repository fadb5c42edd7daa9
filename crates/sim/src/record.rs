//! The recorded run: the workload is executed once, under the scheduler, with everything written down.

use crate::case::Case;
use crate::check::{Rule, Violation};
use crate::explore::{Explorer, Rig, guard};
use crate::history::History;
use crate::log::Log;
use crate::media::Media;
use crate::op::Op;
use crate::run::run_ops;
use crate::state::State;
use crate::system::System;

impl<S: System> Explorer<'_, S> {
    /// Executes the workload of a case; what happens to memory goes to the log, the rest to the history.
    pub(crate) fn record(&mut self, case: &Case) -> Result<(Log, History), Violation> {
        let mut rig = self.take_rig(0);
        let result = guard(|| self.execute(&mut rig, case));
        let mut log = Log::default();
        rig.pm.swap_log(&mut log);
        self.put_rig(0, rig);
        result
            .map(|history| (log, history))
            .map_err(|v| v.after("workload, before any crash".into()))
    }

    fn execute(&mut self, rig: &mut Rig, case: &Case) -> Result<History, Violation> {
        let zeros = vec![0; self.system.region_len() as usize];
        let region = rig.pm.region(&zeros, rig.spare.take());
        let fs = rig.files.boot(&self.blank, &rig.pm);
        rig.pm.set_fuel(u64::MAX);
        let failed =
            |e: base::Error| Violation::new(Rule::N8, format!("no store can be made: {e}"));
        let mut store = self.system.create(region, fs).map_err(failed)?;
        let mut history = History::new(State::new(), self.system.cut(&store), rig.pm.mark());
        let mut schedule = &case.schedule[..];
        for (i, ops) in case.ops.split(|op| *op == Op::Reopen).enumerate() {
            if i > 0 {
                store = self.reopen(rig, case, store, &history)?;
            }
            let used = run_ops(self.system, &store, &rig.pm, ops, schedule, &mut history)?;
            schedule = &schedule[used.min(schedule.len())..];
        }
        history.finish()?;
        self.counters.probe.add(&self.system.probe(&store));
        if self.fold(&store)? != history.final_fold() {
            let what = "the store does not show what was written to it".to_string();
            return Err(Violation::new(Rule::N2, what));
        }
        self.check_space(&store)?;
        rig.spare = self.system.close(store);
        self.check_at_end(rig, &history)?;
        Ok(history)
    }

    /// N7 of a store that has worked and come to rest: each piece of its space has one owner.
    pub(crate) fn check_space(&self, store: &S::Store) -> Result<(), Violation> {
        match self.system.misplaced(store) {
            0 => Ok(()),
            pieces => {
                let what = format!("{pieces} pieces of space have no owner, or two");
                Err(Violation::new(Rule::N7, what))
            }
        }
    }

    /// What lies beside the store once a run has ended.
    pub(crate) fn check_at_end(&mut self, rig: &Rig, history: &History) -> Result<(), Violation> {
        let (expect, accepted) = (history.expect(usize::MAX - 1), history.everything());
        self.check_beside_now(&expect, accepted, &rig.files.disk()).map(|_| ())
    }

    fn reopen(
        &mut self,
        rig: &Rig,
        case: &Case,
        store: S::Store,
        history: &History,
    ) -> Result<S::Store, Violation> {
        self.counters.probe.add(&self.system.probe(&store));
        let region = self.system.close(store).unwrap_or_else(|| {
            let mut log = Log::default();
            rig.pm.swap_log(&mut log);
            let mut media = Media::new(case.mode, &vec![0; self.system.region_len() as usize]);
            media.replay(&log, 0..log.len());
            rig.pm.swap_log(&mut log);
            rig.pm.restore(&media.visible(), None)
        });
        rig.pm.set_thread(0);
        let (store, outcome) = self.open(region, rig.files.go_on())?;
        let mut so_far = history.clone();
        so_far.finish()?;
        if so_far.expect(usize::MAX - 1).check(&outcome).is_none() {
            let what = "a reopened store does not show what was written to it".to_string();
            return Err(Violation::new(Rule::N2, what));
        }
        Ok(store)
    }
}
