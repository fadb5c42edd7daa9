//! `locks`: what is locked, by whom, and for whom.

use clap::Args;
use serde_json::{Value, json};
use strandline::{
    Deadlock, LockOwner, LockOwnerKind, LockReport, LockStatus, LockTarget, LockWait,
};

use crate::context::Context;
use crate::failure::{OK, Outcome};
use crate::look;
use crate::output::Out;
use crate::text::Form;

#[derive(Args)]
pub struct LocksArgs {
    /// At most so many locks
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

pub fn run(context: &Context, args: &LocksArgs) -> Outcome {
    let report = look::ask(context, |look| look.locks(args.limit))?;
    let form = context.form;
    let mut out = Out::new();
    if context.json {
        out.json(&in_json(&report, form))?;
    } else {
        in_words(&report, form, &mut out)?;
    }
    out.finish()?;
    Ok(OK)
}

fn in_words(report: &LockReport, form: Form, out: &mut Out) -> Result<(), crate::failure::Failure> {
    if !report.locks.is_empty() {
        let heads = ["keyspace", "locked", "mode", "held by", "waiting"];
        let mut rows = vec![heads.map(String::from).to_vec()];
        rows.extend(report.locks.iter().map(|lock| row(lock, form)));
        out.table(&rows)?;
    }
    out.line(format_args!("{} locks, {} bytes of memory", report.count, report.bytes))?;
    for deadlock in &report.deadlocks {
        out.line(format_args!("deadlock: {}", told(deadlock, form)))?;
    }
    Ok(())
}

fn row(lock: &LockStatus, form: Form) -> Vec<String> {
    vec![
        lock.keyspace.clone(),
        target(&lock.target, form),
        lock.mode.to_string(),
        named(&lock.holders),
        named(&lock.waiting),
    ]
}

fn target(target: &LockTarget, form: Form) -> String {
    match target {
        LockTarget::Key(key) => form.text(key),
        LockTarget::Range { lower, upper } => {
            let upper = upper.as_ref().map_or_else(String::new, |upper| form.text(upper));
            format!("{}..{upper}", form.text(lower))
        }
    }
}

/// The first few, so that a line stays one.
fn named(owners: &[LockOwner]) -> String {
    const SHOWN: usize = 8;
    let name = |owner: &LockOwner| match owner.kind {
        LockOwnerKind::Write => format!("write {}", owner.number),
        _ => owner.number.to_string(),
    };
    let mut names: Vec<String> = owners.iter().take(SHOWN).map(name).collect();
    if owners.len() > SHOWN {
        names.push(format!("{} more", owners.len() - SHOWN));
    }
    names.join(", ")
}

fn told(deadlock: &Deadlock, form: Form) -> String {
    let waits = deadlock.cycle.iter().map(|wait| {
        let LockWait { transaction, keyspace, target: of, mode, held_by } = wait;
        let of = target(of, form);
        format!(
            "{transaction} waits for {of} of keyspace {keyspace}, {mode}, which {held_by} holds"
        )
    });
    let waits: Vec<String> = waits.collect();
    format!("{}; {} was given up", waits.join("; "), deadlock.victim)
}

fn in_json(report: &LockReport, form: Form) -> Value {
    let owner = |owner: &LockOwner| {
        let kind = match owner.kind {
            LockOwnerKind::Write => "write",
            _ => "transaction",
        };
        json!({ "number": owner.number, "kind": kind })
    };
    let owners = |owners: &[LockOwner]| owners.iter().map(owner).collect::<Vec<_>>();
    let target = |target: &LockTarget| match target {
        LockTarget::Key(key) => json!({ "key": form.json(key) }),
        LockTarget::Range { lower, upper } => json!({
            "lower": form.json(lower),
            "upper": upper.as_ref().map(|upper| form.json(upper)),
        }),
    };
    let lock = |lock: &LockStatus| {
        json!({
            "keyspace": lock.keyspace,
            "target": target(&lock.target),
            "mode": lock.mode.to_string(),
            "holders": owners(&lock.holders),
            "waiting": owners(&lock.waiting),
        })
    };
    let wait = |wait: &LockWait| {
        json!({
            "transaction": wait.transaction,
            "keyspace": wait.keyspace,
            "target": target(&wait.target),
            "mode": wait.mode.to_string(),
            "held_by": wait.held_by,
        })
    };
    let deadlock = |deadlock: &Deadlock| {
        let at = deadlock.at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        json!({
            "at": at.as_secs_f64(),
            "cycle": deadlock.cycle.iter().map(wait).collect::<Vec<_>>(),
            "victim": deadlock.victim,
        })
    };
    json!({
        "locks": report.locks.iter().map(lock).collect::<Vec<_>>(),
        "count": report.count,
        "bytes": report.bytes,
        "deadlocks": report.deadlocks.iter().map(deadlock).collect::<Vec<_>>(),
    })
}
