//! What a campaign did, counted, and the floors below which it proves nothing.

use std::collections::BTreeMap;
use std::fmt;

use pmem::Site;
use ssd::Call;

use crate::log::DiskCall;
use crate::media::Waste;

macro_rules! counters {
    ($(#[doc = $head:literal])+ $name:ident { $($(#[doc = $doc:literal])+ $field:ident,)+ }) => {
        $(#[doc = $head])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $doc])+ pub $field: u64,)+ }

        impl $name {
            /// Adds another's counts.
            pub fn add(&mut self, other: &$name) {
                $(self.$field += other.$field;)+
            }

            /// Every counter with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)+]
            }
        }
    };
}

counters! {
    /// What happened inside a store; filled by the [`System`](crate::System).
    Probe {
        /// A reservation went on to another zone.
        zone_switches,
        /// A zone was granted that had held something before.
        regrants,
        /// Recovery cut although a whole commit lay beyond the cut.
        cuts_below_survivor,
        /// Recovery counted an abandoned commit as empty.
        voids,
        /// Recovery reported damage, which a power cut never is.
        damage,
        /// Flushes.
        flushes,
        /// Merges.
        merges,
        /// Records moved by cleaning.
        cleaned,
        /// The manifest went on to its other area.
        manifest_switches,
        /// Recovery swept something that nothing reached.
        swept,
        /// Memory was emptied into files.
        drained,
        /// Files were merged into files.
        sunk,
        /// Files moved to another level as they were.
        moved,
        /// Files copied to another tier.
        tier_moves,
        /// Files whose live part was written anew.
        collected,
        /// Blocks and values that a cache in memory has taken in.
        cached,
        /// Of those of an earlier life, those that were found again.
        cached_before,
        /// Files taken in.
        ingested,
        /// Copies made.
        checkpoints,
        /// Keyspaces made.
        spaces_made,
        /// Keyspaces dropped.
        spaces_dropped,
        /// Parts of the keys split.
        splits,
        /// Parts of the keys joined.
        joins,
        /// Ranges deleted.
        range_deletes,
        /// Operands merged into keys.
        operands,
        /// Commits that a stream gave.
        streamed,
        /// A stream said that it has lost some.
        changes_lost,
        /// Files of a log were used again for later parts of it.
        recycled,
        /// Files of a log were made before they were needed.
        made_ahead,
        /// Files of a log were begun past the page cache.
        direct,
        /// Commits were too large for a place among others.
        large,
    }
}

counters! {
    /// What an explorer did.
    Totals {
        /// Workloads.
        cases,
        /// Events recorded in them.
        events,
        /// Crash points.
        points,
        /// Crash points at which every image was taken.
        exhaustive_points,
        /// Images, the same one at several points included.
        images,
        /// Images that were recovered.
        recoveries,
        /// Images with two or more commits in flight.
        images_in_flight,
        /// Images with something in doubt on the disk.
        disk_images,
        /// Of these, images with something in doubt in memory too.
        mixed_images,
        /// Different (crash site, pattern of torn lines, recovered cut).
        distinct,
        /// Crashes after or inside the recovery from a crash.
        double_crashes,
        /// Of these, crashes inside the recovery itself.
        crashes_in_recovery,
        /// Process kills.
        kills,
        /// Of these, those after which another process recovered and worked before power was cut.
        kills_cut,
        /// Recovered stores that were worked with.
        continuations,
        /// Recoveries that were decided line by line.
        lazy_leaves,
        /// Images that those stand for, saturating.
        lazy_states,
        /// Copies of the store that were opened.
        copies_opened,
        /// Points whose exploration was cut short by a budget.
        truncated,
        /// Recoveries that refused an image cut before the store was made.
        unmade,
        /// Stores that were made again where none was completely made.
        remade,
        /// How often sabotage struck.
        struck,
        /// Mutants planted.
        mutants,
        /// Mutants noticed.
        killed,
    }
}

/// What was seen of one persist site, or of one kind of call on one kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteCount {
    /// Events.
    pub events: u64,
    /// Crash points right after an event of the site.
    pub points: u64,
}

impl SiteCount {
    fn add(&mut self, other: &SiteCount) {
        self.events += other.events;
        self.points += other.points;
    }
}

/// Everything counted.
#[derive(Clone, Debug)]
pub struct Counters {
    /// What the explorer did.
    pub totals: Totals,
    /// What happened inside the stores.
    pub probe: Probe,
    /// By site, in the order of [`Site::ALL`].
    pub sites: Vec<SiteCount>,
    /// By call that changes the disk, and [kind](crate::log::DiskCall::kind) of file.
    pub calls: BTreeMap<(Call, String), SiteCount>,
    /// Flushes and fences of the workloads themselves.
    pub waste: Waste,
    /// Recoveries by cut.
    pub cuts: BTreeMap<u64, u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            totals: Totals::default(),
            probe: Probe::default(),
            sites: vec![SiteCount::default(); Site::ALL.len()],
            calls: BTreeMap::new(),
            waste: Waste::default(),
            cuts: BTreeMap::new(),
        }
    }
}

impl Counters {
    /// Adds another campaign's counts.
    pub fn add(&mut self, other: &Counters) {
        self.totals.add(&other.totals);
        self.probe.add(&other.probe);
        for (mine, theirs) in self.sites.iter_mut().zip(&other.sites) {
            mine.add(theirs);
        }
        for (call, theirs) in &other.calls {
            self.calls.entry(call.clone()).or_default().add(theirs);
        }
        self.waste.add(&other.waste);
        other.cuts.iter().for_each(|(&cut, n)| *self.cuts.entry(cut).or_default() += n);
    }

    /// Counts of one site.
    pub fn site(&self, site: Site) -> SiteCount {
        self.sites[site as usize]
    }

    /// Counts of one kind of call on one kind of file.
    pub fn call(&self, call: Call, kind: &str) -> SiteCount {
        self.calls.get(&(call, kind.to_string())).copied().unwrap_or_default()
    }

    pub(crate) fn call_mut(&mut self, call: &DiskCall) -> &mut SiteCount {
        self.calls.entry((call.call, call.kind().to_string())).or_default()
    }

    /// Sites at which a crash was tried.
    pub fn sites_covered(&self) -> Vec<Site> {
        Site::ALL.iter().copied().filter(|&s| self.site(s).points > 0).collect()
    }

    fn named(&self) -> Vec<(&'static str, u64)> {
        let mut named = self.totals.named();
        named.extend(self.probe.named());
        named.push(("sites_covered", self.sites_covered().len() as u64));
        named.push(("distinct_cuts", self.cuts.len() as u64));
        named
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in self.named().into_iter().filter(|c| c.1 > 0) {
            writeln!(f, "{name:>20} {count}")?;
        }
        for &site in Site::ALL {
            let SiteCount { events, points } = self.site(site);
            if events > 0 {
                writeln!(f, "{:>20} {events} events, {points} crash points", format!("{site:?}"))?;
            }
        }
        for ((call, kind), SiteCount { events, points }) in &self.calls {
            writeln!(f, "{:>20} {events} events, {points} crash points", format!("{call} {kind}"))?;
        }
        let w = self.waste;
        writeln!(
            f,
            "{:>20} {} of {} lines",
            "flushed in vain", w.redundant_flushes, w.flushed_lines
        )?;
        writeln!(f, "{:>20} {} of {}", "fenced in vain", w.redundant_fences, w.fences)
    }
}

/// What a campaign must reach to count.
#[derive(Clone, Debug, Default)]
pub struct Floors {
    /// Counter by name (a field of [`Totals`] or [`Probe`], `sites_covered` or `distinct_cuts`), and its
    /// least value.
    pub least: Vec<(&'static str, u64)>,
    /// Sites at which crashes must have been tried.
    pub sites: Vec<Site>,
    /// Calls, with kinds of files, right after which crashes must have been tried.
    pub calls: Vec<(Call, &'static str)>,
}

impl Floors {
    /// Fails with one line per counter that is too low.
    ///
    /// # Panics
    /// If a floor names no counter.
    pub fn check(&self, counters: &Counters) -> Result<(), String> {
        let named = counters.named();
        let count = |name| {
            let found = named.iter().find(|n| n.0 == name).map(|n| n.1);
            found.unwrap_or_else(|| panic!("no counter is called {name}"))
        };
        let mut low = Vec::new();
        for &(name, least) in &self.least {
            let is = count(name);
            if is < least {
                low.push(format!("{name} is {is}, the floor is {least}"));
            }
        }
        let bare = self.sites.iter().filter(|&&s| counters.site(s).points == 0);
        low.extend(bare.map(|s| format!("no crash was tried at {s:?}")));
        let bare = self.calls.iter().filter(|(call, kind)| counters.call(*call, kind).points == 0);
        low.extend(bare.map(|(call, kind)| format!("no crash was tried at {call} {kind}")));
        // A mutant that was planted must have been noticed; there is no floor below "all".
        let Totals { mutants, killed, .. } = counters.totals;
        if killed < mutants {
            low.push(format!("{} of {mutants} mutants survived", mutants - killed));
        }
        if low.is_empty() { Ok(()) } else { Err(low.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_hold_or_say_why() {
        let mut counters = Counters::default();
        counters.totals.images = 10;
        counters.sites[Site::Record as usize].points = 1;
        let mut floors =
            Floors { least: vec![("images", 10)], sites: vec![Site::Record], ..Floors::default() };
        assert_eq!(floors.check(&counters), Ok(()));
        floors.least.push(("kills", 1));
        floors.sites.push(Site::Run);
        floors.calls.push((Call::Sync, ".sst"));
        counters.totals.mutants = 2;
        let low = floors.check(&counters).unwrap_err();
        assert_eq!(low.lines().count(), 4, "{low}");
    }
}
