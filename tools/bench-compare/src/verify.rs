//! The last look at a store: all of it, entry by entry, against what it should hold.

use twox_hash::XxHash3_64;

use crate::data::{Data, Model};
use crate::engines::{Engine, Result};

/// What a store holds, in two numbers: stores with the same are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Entries.
    pub count: u64,
    /// Hash of all keys and values, in order.
    pub hash: u64,
}

/// Reads the whole store: order, keys, values and their number must be those of `model`.
///
/// # Errors
/// What differs first.
pub fn whole(engine: &dyn Engine, data: &Data, model: &Model) -> Result<Digest> {
    let (mut digest, mut last, mut wrong) = (Digest::default(), Vec::new(), None);
    engine.scan(&[], usize::MAX, &mut |key, value| {
        if wrong.is_some() {
            return;
        }
        wrong = entry(data, model, &last, key, value).err();
        last.clear();
        last.extend_from_slice(key);
        digest.count += 1;
        digest.hash =
            XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(digest.hash, key), value);
    })?;
    if let Some(wrong) = wrong {
        return Err(format!("whole scan: {wrong}"));
    }
    let present = model.present();
    if digest.count != present {
        return Err(format!("whole scan: {} entries, not {present}", digest.count));
    }
    Ok(digest)
}

fn entry(data: &Data, model: &Model, last: &[u8], key: &[u8], value: &[u8]) -> Result<()> {
    if !last.is_empty() && key <= last {
        return Err(format!("key {key:?} after {last:?}"));
    }
    let number = data.number(key).ok_or_else(|| format!("key {key:?} was never put"))?;
    let (found, wanted) = (data.generation(number, value), model.get(number));
    if found != Some(wanted) || wanted == 0 {
        return Err(format!("key {number}: value of generation {found:?}, not {wanted}"));
    }
    Ok(())
}
