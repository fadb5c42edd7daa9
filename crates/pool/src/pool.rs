//! [`Pool`]: creating and opening.

use std::sync::{Arc, Mutex};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pmem::{InFlight, Region, Site};

use crate::edit::{self, Binding};
use crate::geometry::{Format, Geometry, HEADER_LEN};
use crate::grains::Medium;
use crate::log::{self, Log, Replay};
use crate::objects::Slabs;
use crate::space::{Claims, Extent, SpaceMap};
use crate::superblock::{self, Areas, FORMAT_VERSION, SLOTS, Superblock};
use crate::wear;

/// A formatted region: its layout, its space and its manifest log. See the [crate] for the contract.
pub struct Pool {
    region: Arc<Region>,
    id: u64,
    geometry: Geometry,
    pub(crate) space: SpaceMap,
    pub(crate) slabs: Slabs,
    pub(crate) log: Mutex<Log>,
}

impl Pool {
    /// Formats `region`, whatever it held before, and begins the log with `snapshot`. Until this has
    /// returned, opening the region finds no pool.
    ///
    /// `pool_id` must be fresh: checksums are bound to it, so that bytes of an earlier pool in the
    /// same place do not pass.
    ///
    /// # Errors
    /// `ReadOnly`, `InvalidArgument`, `LimitExceeded` as their messages say; those of the region's
    /// [`Journal`](pmem::Journal), if it has one.
    pub fn create(
        region: Arc<Region>,
        format: Format,
        pool_id: u64,
        snapshot: &[u8],
    ) -> Result<Pool> {
        let fail = |kind, text| Err(Error::new(kind, "create pool", text));
        let what = region.describe();
        if region.is_read_only() {
            return fail(ErrorKind::ReadOnly, format!("{what}; open it for writing"));
        }
        let geometry = match Geometry::new(format, region.len()) {
            Ok(geometry) => geometry,
            Err(why) => return fail(ErrorKind::InvalidArgument, format!("{what}: {why}")),
        };
        let superblock = Superblock {
            version: FORMAT_VERSION,
            pool_id,
            pool_len: geometry.pool_len(),
            zone_len: geometry.zone_len(),
            grain_len: geometry.grain_len(),
            manifest_len: geometry.manifest_len(),
            generation: 1,
            areas: Areas::fixed(&geometry),
            area: 0,
            incarnation: 1,
        };
        log::check_len(&region, "create pool", superblock.areas.len, snapshot.len())?;
        let mut log = Log::created(superblock);
        let _durable = superblock::begin_format(&region);
        plant_superblock_first(&region, &superblock)?;
        let cleared = clear_metadata(&region, &geometry);
        let _durable = region.fence(cleared.and(wear::format(&region, &geometry, pool_id)));
        // Zeroes need not be kept: a journal begins with them.
        let (areas, end) = (geometry.area(0).start, geometry.area(1).end);
        region.discard(areas.get(), end - areas);
        let area = superblock.log().start;
        let _durable = log.write(&region, Site::Format, superblock, area, 0, snapshot)?;
        // Slot A still says that the creation is under way, until B says that it is done.
        let _durable = superblock.write(&region, Site::Format, SLOTS[1])?;
        let _durable = superblock.write(&region, Site::Format, SLOTS[0])?;
        Ok(Self::assemble(region, geometry, log, Claims::Complete))
    }

    /// Reads the superblock and the log, and writes nothing: neither here nor, if the region is
    /// read-only, later. What comes next is in I-POOL-1 and I-POOL-6.
    ///
    /// # Errors
    /// - `NotFound`: no pool, or one whose creation never finished.
    /// - `InvalidArgument`: something else than a pool.
    /// - `NotSupported`: another format version.
    /// - `Corruption`: shorter than it was, or superblock or log damaged.
    pub fn open(region: Arc<Region>) -> Result<(Pool, Replay)> {
        let superblock = superblock::choose(&region)?;
        let what = region.describe();
        if superblock.pool_len > region.len() {
            return Err(Error::corruption(
                "open pool",
                format!(
                    "{what} has {} bytes, the pool in it {}; it was cut short, restore the whole file",
                    region.len(),
                    superblock.pool_len
                ),
            ));
        }
        let damaged = |why: String| {
            let text = format!("superblock of {what}: {why}; restore a copy of the pool");
            Error::corruption("open pool", text)
        };
        let geometry = superblock.geometry().map_err(damaged)?;
        if !superblock.areas.are_sound(&geometry) {
            return Err(damaged(format!("log areas at {:?}", superblock.areas.at)));
        }
        let binding = Binding { pool_id: superblock.pool_id, incarnation: superblock.incarnation };
        let read = edit::read_log(&region, binding, superblock.log())?;
        let log = Log::opened(superblock, read.end, read.payloads.len());
        let pool = Self::assemble(region, geometry, log, Claims::ToCome);
        pool.claim_areas(superblock.areas)?;
        Ok((pool, Replay { payloads: read.payloads, torn_tail: read.torn_tail }))
    }

    /// Claims the areas of the log, where they are extents.
    fn claim_areas(&self, areas: Areas) -> Result<()> {
        if planted::is(Bug::LogAreasUnclaimed) {
            return Ok(());
        }
        let moved: Option<[Extent; 2]> = areas.extents(&self.geometry);
        moved.into_iter().flatten().try_for_each(|extent| self.claim_extent(extent))
    }

    /// Pools that `region` may have held, where superblock or log are too damaged for [`Pool::open`]: with headers and
    /// bytes of zones, and an empty log. The region may be shorter than the pool. For saving what is left.
    pub fn remains(region: &Arc<Region>) -> Vec<Pool> {
        let pools = superblock::guesses(region).into_iter().filter_map(|superblock| {
            let geometry = superblock.geometry().ok()?;
            let log = Log::opened(superblock, superblock.areas.at[0], 0);
            let whole = geometry.data().start.get() <= region.len();
            whole.then(|| Self::assemble(Arc::clone(region), geometry, log, Claims::ToCome))
        });
        pools.collect()
    }

    fn assemble(region: Arc<Region>, geometry: Geometry, log: Log, claims: Claims) -> Pool {
        let medium = if region.is_private() { Medium::Lasts } else { Medium::Wears };
        // Counts of another medium, or of an older version, would only spread what is used.
        let wear = match medium {
            Medium::Wears => wear::load(&region, &geometry, log.superblock.pool_id),
            Medium::Lasts => vec![0; geometry.zones() as usize],
        };
        let space = SpaceMap::new(&geometry, medium, wear, claims);
        let (id, slabs) = (log.superblock.pool_id, Slabs::new(&geometry));
        Pool { region, id, geometry, space, slabs, log: Mutex::new(log) }
    }

    /// The pool's identity, to which checksums are bound.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where everything is.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The bytes.
    #[inline]
    pub fn region(&self) -> &Region {
        &self.region
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({:016x} in {:?})", self.id, self.region)
    }
}

/// A planted bug: a superblock is durable before what it names.
fn plant_superblock_first(region: &Region, superblock: &Superblock) -> Result<()> {
    if planted::is(Bug::SuperblockFirst) {
        let _planted = superblock.write(region, Site::Format, SLOTS[1])?;
        let _planted = superblock.write(region, Site::Format, SLOTS[0])?;
    }
    Ok(())
}

/// Zeroes what is in front of the data: the zone table and the areas, in which an earlier pool with the same id could have
/// left lines that pass. Left alone are the words that say what is going on, and the wear table, which is written; and what is zero
/// in memory that a journal keeps: it begins so, and zeroes would only make the journal long.
fn clear_metadata<'r>(region: &'r Region, geometry: &Geometry) -> InFlight<'r> {
    const ZEROES: [u8; HEADER_LEN as usize] = [0; HEADER_LEN as usize];
    let mut cleared = region.copy_nt(Site::Format, base::LINE as u64, &ZEROES[base::LINE..]);
    for part in [geometry.zone_table(), geometry.area(0), geometry.area(1)] {
        let mut at = part.start;
        while at < part.end {
            let len = (part.end - at).min(HEADER_LEN);
            let is_written = !region.is_private()
                || region.bytes(at.get(), len as usize).iter().any(|byte| *byte != 0);
            if is_written {
                let zeroes = &ZEROES[..len as usize];
                cleared = cleared.and(region.copy_nt(Site::Format, at.get(), zeroes));
            }
            at += len;
        }
    }
    cleared
}
