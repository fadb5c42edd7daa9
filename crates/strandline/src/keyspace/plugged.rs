//! Which code of the application a keyspace calls: what it names, or else the store's.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Error, ErrorKind, Result};

use crate::hooks::events::queue::Events;
use crate::hooks::{
    Called, CompactionFilter, HookFailures, Hooks, MergeOperator, Plug, RecoveryProgress,
};
use crate::operators::BuiltInOperator;
use crate::options::KeyspaceOptions;
use crate::ttl::{Expiry, StoreClock};

/// The hooks of an open store.
pub(crate) struct StoreHooks {
    hooks: Hooks,
    failures: Arc<HookFailures>,
    clock: Arc<StoreClock>,
    events: Arc<Events>,
}

impl StoreHooks {
    pub(crate) fn new(hooks: Hooks) -> StoreHooks {
        let clock = Arc::new(StoreClock::new(hooks.clock.clone()));
        let failures = Arc::<HookFailures>::default();
        let events = Events::new(hooks.listeners.clone(), Arc::clone(&failures));
        StoreHooks { hooks, failures, clock, events: Arc::new(events) }
    }

    /// The same for a copy of the store that is read once: nothing is told of it.
    pub(crate) fn for_copy(&self) -> Hooks {
        Hooks { listeners: Vec::new(), recovery_progress: None, ..self.hooks.clone() }
    }

    /// Who is told what happens.
    pub(crate) fn events(&self) -> &Arc<Events> {
        &self.events
    }

    /// Who is told how far the open has got.
    pub(crate) fn recovery_progress(&self) -> Option<&dyn RecoveryProgress> {
        self.hooks.recovery_progress.as_deref()
    }

    /// What compactions have passed over.
    pub(crate) fn failures(&self) -> &HookFailures {
        &self.failures
    }

    pub(crate) fn clock(&self) -> &StoreClock {
        &self.clock
    }

    /// What makes values of a keyspace with these options expire, if they do.
    pub(crate) fn expiry(&self, options: &KeyspaceOptions) -> Option<Expiry> {
        options.ttl.map(|ttl| Expiry::new(ttl, &self.clock))
    }

    /// The hooks of a keyspace with these options.
    pub(crate) fn of(&self, options: &KeyspaceOptions) -> Called {
        let (operator, filter) = (self.operator(options), self.filter(options));
        Called::new(operator, filter, Arc::clone(&self.failures))
    }

    /// None: of what the store writes for itself no code of the application decides.
    pub(crate) fn of_own(&self) -> Called {
        Called::new(Plug::Empty, Plug::Empty, Arc::clone(&self.failures))
    }

    fn operator(&self, options: &KeyspaceOptions) -> Plug<dyn MergeOperator> {
        let hooks = &self.hooks;
        let Some(name) = &options.merge_operator else {
            return filled(hooks.merge_operator.as_ref());
        };
        match BuiltInOperator::named(name) {
            Some(operator) => Plug::Filled(Arc::new(operator)),
            None => named(name, &hooks.merge_operators),
        }
    }

    fn filter(&self, options: &KeyspaceOptions) -> Plug<dyn CompactionFilter> {
        let hooks = &self.hooks;
        match &options.compaction_filter {
            None => filled(hooks.compaction_filter.as_ref()),
            Some(name) => named(name, &hooks.compaction_filters),
        }
    }

    /// Refuses names that this open does not know: a new keyspace with them could not be read.
    ///
    /// # Errors
    /// `InvalidArgument`, with the names that there are.
    pub(crate) fn check_known(&self, options: &KeyspaceOptions) -> Result<()> {
        let refused = |what: &str, name: &str, mut known: Vec<&str>| {
            known.sort_unstable();
            let text = format!(
                "no {what} is called {name}; register it in Hooks, or take one of these: {}",
                known.join(", ")
            );
            Err(Error::new(ErrorKind::InvalidArgument, "create keyspace", text))
        };
        if let Plug::Unknown(name) = self.operator(options) {
            let registered = self.hooks.merge_operators.keys().map(String::as_str);
            return refused(
                "merge operator",
                &name,
                registered.chain(BuiltInOperator::NAMES).collect(),
            );
        }
        if let Plug::Unknown(name) = self.filter(options) {
            let registered = self.hooks.compaction_filters.keys().map(String::as_str);
            return refused("compaction filter", &name, registered.collect());
        }
        Ok(())
    }
}

fn filled<H: ?Sized>(hook: Option<&Arc<H>>) -> Plug<H> {
    hook.map_or(Plug::Empty, |hook| Plug::Filled(Arc::clone(hook)))
}

fn named<H: ?Sized>(name: &str, known: &BTreeMap<String, Arc<H>>) -> Plug<H> {
    match known.get(name) {
        Some(hook) => Plug::Filled(Arc::clone(hook)),
        None => Plug::Unknown(name.to_owned()),
    }
}
