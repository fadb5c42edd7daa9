//! Volatile objects: memory of the pool for what a restart may forget, such as caches and their indexes.
//!
//! They lie in extents that no manifest names, and nothing about them is stored. So they cannot leak: whatever a crash
//! leaves of them, the next open finds their grains free (I-POOL-1).
//!
//! An object shorter than a grain has the length of a **size class**, four to each power of two. A class fills **slabs**,
//! extents of a few grains, those at the high end first, so that the others empty themselves; a slab whose last object
//! goes is given back at once. A longer object is an extent of its own. What is free in a slab is kept beside it,
//! never in the objects, which may hold anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::PmOffset;

use crate::geometry::Geometry;
use crate::grains::Numbers;
use crate::pool::Pool;
use crate::space::Extent;

/// Length of the smallest class and unit of all: no two objects share a line.
const UNIT: u64 = base::LINE as u64;
/// A slab holds at least so many objects, unless zones are too small for that.
const PER_SLAB_MIN: u64 = 8;

/// What volatile objects take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectUse {
    /// Objects that are allocated.
    pub objects: u64,
    /// Bytes in them, each rounded up to its class or to whole grains.
    pub bytes: u64,
    /// Bytes of the pool that are taken for them: what is free in slabs, too.
    pub taken: u64,
}

/// Allocates volatile objects in a pool; see [`Pool::objects`].
#[derive(Clone, Copy)]
pub struct Objects<'p> {
    pool: &'p Pool,
}

/// The volatile objects of a pool.
pub(crate) struct Slabs {
    classes: Vec<Mutex<Class>>,
    // Objects that are extents of their own.
    extents: AtomicU64,
    extent_bytes: AtomicU64,
}

/// Slabs for objects of one length.
struct Class {
    len: u64,
    slab_len: u64,
    /// By offset.
    slabs: BTreeMap<PmOffset, Slab>,
    /// Offsets of slabs that are not full.
    roomy: BTreeSet<PmOffset>,
    objects: u64,
}

struct Slab {
    /// Places below this one were used at some time.
    begun: u32,
    /// Those of them that are free again.
    freed: Numbers,
    objects: u32,
}

impl Slabs {
    pub fn new(geometry: &Geometry) -> Self {
        let grain_len = geometry.grain_len();
        let grains_max = u64::from(geometry.grains_per_zone() / 2);
        let lens = (0..).map(class_len).take_while(|len| *len < grain_len);
        let classes = lens.map(|len| {
            let grains = (PER_SLAB_MIN * len).div_ceil(grain_len).min(grains_max);
            let (slabs, roomy) = (BTreeMap::new(), BTreeSet::new());
            Mutex::new(Class { len, slab_len: grains * grain_len, slabs, roomy, objects: 0 })
        });
        let classes = classes.collect();
        Self { classes, extents: AtomicU64::new(0), extent_bytes: AtomicU64::new(0) }
    }

    /// The class for `len` bytes, unless they take an extent of their own. A panic under the lock cannot leave it half
    /// changed: every check comes first.
    fn class(&self, len: u64) -> Option<MutexGuard<'_, Class>> {
        let class = self.classes.get(class_of(len))?;
        Some(class.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pool {
    /// Memory for what a restart may forget. Any thread may allocate, and free what another one allocated.
    pub fn objects(&self) -> Objects<'_> {
        Objects { pool: self }
    }
}

impl Objects<'_> {
    /// Takes room for `len` bytes at a multiple of 64; `None` if the pool has none. What it holds is of no
    /// meaning. The extent may be longer than was asked for, and all of it may be used.
    ///
    /// # Panics
    /// Before [`Pool::sweep`] of an opened pool (I-POOL-1).
    pub fn allocate(&self, len: u64) -> Option<Extent> {
        let slabs = &self.pool.slabs;
        if let Some(mut class) = slabs.class(len) {
            return class.allocate(self.pool);
        }
        let extent = self.pool.take_extent(len)?;
        slabs.extents.fetch_add(1, Relaxed);
        slabs.extent_bytes.fetch_add(extent.len, Relaxed);
        Some(extent)
    }

    /// Gives an object back.
    ///
    /// # Panics
    /// If it is not allocated (I-POOL-2).
    pub fn free(&self, object: Extent) {
        let slabs = &self.pool.slabs;
        if let Some(mut class) = slabs.class(object.len) {
            assert!(class.free(self.pool, object), "{object:?} was freed, but is not allocated");
            return;
        }
        self.pool.release_extent(object);
        slabs.extents.fetch_sub(1, Relaxed);
        slabs.extent_bytes.fetch_sub(object.len, Relaxed);
    }

    /// What is allocated; read class by class while others may go on.
    pub fn usage(&self) -> ObjectUse {
        let slabs = &self.pool.slabs;
        let bytes = slabs.extent_bytes.load(Relaxed);
        let mut sum = ObjectUse { objects: slabs.extents.load(Relaxed), bytes, taken: bytes };
        for class in &slabs.classes {
            let class = class.lock().unwrap_or_else(PoisonError::into_inner);
            sum.objects += class.objects;
            sum.bytes += class.objects * class.len;
            sum.taken += class.slabs.len() as u64 * class.slab_len;
        }
        sum
    }
}

impl Class {
    fn per_slab(&self) -> u32 {
        (self.slab_len / self.len) as u32
    }

    fn allocate(&mut self, pool: &Pool) -> Option<Extent> {
        let per_slab = self.per_slab();
        let at = match self.roomy.last() {
            Some(at) => *at,
            None => {
                let at = pool.take_extent(self.slab_len)?.at;
                self.slabs.insert(at, Slab { begun: 0, freed: Numbers::new(per_slab), objects: 0 });
                self.roomy.insert(at);
                at
            }
        };
        let slab = self.slabs.get_mut(&at)?;
        let no = slab.take();
        if slab.objects == per_slab {
            self.roomy.remove(&at);
        }
        self.objects += 1;
        Some(Extent { at: at + u64::from(no) * self.len, len: self.len })
    }

    /// Whether the object was allocated; then it is free.
    fn free(&mut self, pool: &Pool, object: Extent) -> bool {
        let (per_slab, len) = (self.per_slab(), self.len);
        let Some((at, slab)) = self.slabs.range_mut(..=object.at).next_back() else {
            return false;
        };
        let (at, offset) = (*at, object.at - *at);
        let is_place = object.len == len && offset.is_multiple_of(len);
        if !is_place || !slab.give_back(offset / len) {
            return false;
        }
        self.objects -= 1;
        match slab.objects {
            0 => {
                self.slabs.remove(&at);
                self.roomy.remove(&at);
                pool.release_extent(Extent { at, len: self.slab_len });
            }
            left if left + 1 == per_slab => {
                self.roomy.insert(at);
            }
            _ => {}
        }
        true
    }
}

impl Slab {
    /// A free place; the slab is not full.
    fn take(&mut self) -> u32 {
        self.objects += 1;
        if let Some(no) = self.freed.last() {
            self.freed.remove(no);
            return no;
        }
        self.begun += 1;
        self.begun - 1
    }

    /// Frees place `no`, if it is taken.
    fn give_back(&mut self, no: u64) -> bool {
        let taken = no < u64::from(self.begun) && !self.freed.contains(no as u32);
        if taken {
            self.freed.insert(no as u32);
            self.objects -= 1;
        }
        taken
    }
}

/// The shortest class that holds `len` bytes.
fn class_of(len: u64) -> usize {
    let last = len.max(1).div_ceil(UNIT) - 1;
    if last < 4 {
        return last as usize;
    }
    let power = last.ilog2();
    (4 * u64::from(power - 1) + (last >> (power - 2)) - 4) as usize
}

/// Bytes of an object of a class.
fn class_len(class: usize) -> u64 {
    let class = class as u64;
    let units = if class < 4 { class + 1 } else { (class % 4 + 5) << (class / 4 - 1) };
    units * UNIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other_and_waste_a_fifth_at_most() {
        let lens: Vec<u64> = (0..14).map(class_len).collect();
        assert_eq!(lens[..8], [64, 128, 192, 256, 320, 384, 448, 512]);
        assert_eq!(lens[8..], [640, 768, 896, 1024, 1280, 1536]);
        for len in 0..100_000 {
            let class = class_of(len);
            assert!(class_len(class) >= len, "{len}");
            assert!(class == 0 || class_len(class - 1) < len, "{len}");
            assert!(len < 256 || class_len(class) - len <= class_len(class) / 5, "{len}");
        }
        assert_eq!(class_len(class_of(64 << 20)), 64 << 20);
    }
}
