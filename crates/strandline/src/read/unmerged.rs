//! Keys whose operands the merge operator refuses: nothing is damaged, yet they cannot be read.

use std::ops::Bound;
use std::sync::Arc;

use art::Direction;
use base::{ErrorKind, Result, Seq};

use crate::engine::Engine;
use crate::hooks::UnmergedKey;
use crate::keyspace::KeyspaceState;
use crate::read::scan::Scan;
use crate::snapshot::Reader;
use crate::ttl::Expiry;

/// Keys of a keyspace, as of now, whose operands its operator refuses. Without an operator none is looked for.
pub(crate) fn unmerged(
    engine: &Arc<Engine>,
    space: &Arc<KeyspaceState>,
) -> Result<Vec<UnmergedKey>> {
    let mut found = Vec::new();
    if !space.hooks.has_operator() {
        return Ok(found);
    }
    let at = engine.sequence.snapshots.take(&engine.sequence.ring, Reader::Snapshot);
    let walked = walk(engine, space, at, &mut found);
    engine.sequence.snapshots.release(at, Reader::Snapshot);
    match walked {
        // What is damaged is listed by itself.
        Err(error) if error.kind() != ErrorKind::Corruption => Err(error),
        _ => Ok(found),
    }
}

fn walk(
    engine: &Arc<Engine>,
    space: &Arc<KeyspaceState>,
    snapshot: Seq,
    found: &mut Vec<UnmergedKey>,
) -> Result<()> {
    let now = space.expiry.as_ref().map(Expiry::now);
    let mut scan = Scan::new(engine, space, snapshot, now, Bound::Unbounded, Bound::Unbounded)?;
    scan.seek(Bound::Unbounded, Direction::Forward)?;
    while let Some(key) = scan.key() {
        if let Some(error) = scan.refused() {
            let (keyspace, key) = (space.name.clone(), key.to_vec());
            found.push(UnmergedKey { keyspace, key, what: error.context().to_owned() });
        }
        scan.step(Direction::Forward)?;
    }
    Ok(())
}
