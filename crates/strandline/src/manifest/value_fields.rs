//! How edits describe value files, and what tables refer to in them.

use base::codec::{Reader, put_varint};

use crate::tree::desc::{ValueFileDesc, ValueShare};
use crate::tree::tiers::OWN;

pub(super) fn put_shares(out: &mut Vec<u8>, shares: &[ValueShare]) {
    put_varint(out, shares.len() as u64);
    for share in shares {
        [share.file, share.values, share.bytes].into_iter().for_each(|word| put_varint(out, word));
    }
}

pub(super) fn shares(reader: &mut Reader<'_>) -> Option<Vec<ValueShare>> {
    let mut shares = Vec::new();
    for _ in 0..reader.varint()? {
        let (file, values, bytes) = (reader.varint()?, reader.varint()?, reader.varint()?);
        shares.push(ValueShare { file, values, bytes });
    }
    Some(shares)
}

pub(super) fn put_value_file(out: &mut Vec<u8>, file: &ValueFileDesc) {
    [file.id, file.len, file.values].into_iter().for_each(|word| put_varint(out, word));
    out.extend_from_slice(&file.sum.to_le_bytes());
}

pub(super) fn value_file(reader: &mut Reader<'_>) -> Option<ValueFileDesc> {
    let (id, len, values) = (reader.varint()?, reader.varint()?, reader.varint()?);
    Some(ValueFileDesc { id, extent: None, tier: OWN, len, values, sum: reader.u64()? })
}
