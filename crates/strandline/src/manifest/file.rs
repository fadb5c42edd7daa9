//! A manifest as a file, beside the tables that it names: what a checkpoint has in place of a pool.
//! `docs/format/manifest.md` is the format.

use std::path::Path;

use base::checksum::{mix, sum64};
use base::codec::Reader;
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use ssd::Fs;

use super::ManifestState;

/// Name of the file, in the directory of the tables.
pub(crate) const NAME: &str = "MANIFEST";
/// Its name until it is whole.
pub(crate) const STAGED: &str = "MANIFEST.new";
const MAGIC: &[u8; 8] = b"strandmf";
/// Of a state without value files, and of one with them: builds that do not know these refuse it by its number.
const PLAIN: u32 = 2;
const VERSION: u32 = 3;
/// The oldest form that is read: checkpoints are how stores of older versions come here.
const OLDEST: u32 = 1;
/// Magic, version, zeroes, length and checksum of what follows.
const HEADER_LEN: usize = 32;

fn encode(state: &ManifestState) -> Vec<u8> {
    let payload = state.encode_snapshot();
    let len = payload.len() as u64;
    let version = if state.value_files().next().is_none() { PLAIN } else { VERSION };
    let mut out = Vec::with_capacity(HEADER_LEN + payload.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&sum(version, len, &payload).to_le_bytes());
    out.extend_from_slice(&payload);
    out
}

fn sum(version: u32, len: u64, payload: &[u8]) -> u64 {
    sum64(mix(u64::from(version), len), payload)
}

/// What is wrong with a file.
enum Refusal {
    Damaged(&'static str),
    Version(u32),
}

fn payload(bytes: &[u8]) -> Result<&[u8], Refusal> {
    let short = Refusal::Damaged("is cut short");
    let mut reader = Reader::new(bytes);
    if reader.take(MAGIC.len()) != Some(&MAGIC[..]) {
        return Err(Refusal::Damaged("does not begin as a manifest does"));
    }
    let Some(version) = reader.u32() else { return Err(short) };
    if !(OLDEST..=VERSION).contains(&version) {
        return Err(Refusal::Version(version));
    }
    let (Some(zeroes), Some(len), Some(stored)) = (reader.u32(), reader.u64(), reader.u64()) else {
        return Err(short);
    };
    let rest = &bytes[HEADER_LEN..];
    if zeroes != 0 || rest.len() as u64 != len || sum(version, len, rest) != stored {
        return Err(Refusal::Damaged("fails its checksum"));
    }
    Ok(rest)
}

/// Writes `state` to the directory `dir`, durably and in one piece.
pub(crate) fn write(fs: &dyn Fs, dir: &Path, state: &ManifestState) -> Result<()> {
    if planted::is(Bug::CheckpointSkipTablesSync) {
        let mut file = fs.create(&dir.join(NAME))?;
        file.append(&encode(state))?;
        return file.sync();
    }
    let bytes = encode(state);
    ssd::durable_install(fs, &dir.join(STAGED), &dir.join(NAME), |file| file.append(&bytes))
}

/// The state that the file in `dir` has, if there is one.
pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Result<Option<ManifestState>> {
    let path = dir.join(NAME);
    let file = match fs.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes)?;
    let payload = payload(&bytes).map_err(|refusal| match refusal {
        Refusal::Damaged(what) => Error::corruption(
            "open",
            format!(
                "{} {what}; take another checkpoint, or save what its tables hold with `strandline repair`",
                path.display()
            ),
        ),
        Refusal::Version(version) => Error::new(
            ErrorKind::NotSupported,
            "open",
            format!(
                "{} has format {version}, this build reads {OLDEST} to {VERSION}; use the release that wrote it",
                path.display()
            ),
        ),
    })?;
    ManifestState::replay(&[payload.to_vec()]).map(Some)
}

/// Removes the file, once a pool has what it says. One that stays is not looked at again.
pub(crate) fn remove(fs: &dyn Fs, dir: &Path) {
    let path = dir.join(NAME);
    if fs.exists(&path).unwrap_or(false) {
        let _harmless = fs.remove(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_version_1_is_read() {
        let table =
            b"\x09\x05\x00\x03\x0a\x02\x00\x00\x01\x02\x00\x02ka\x02kb\x00\x07\0\0\0\0\0\0\0";
        let payload = [b"\x02\x02\x02\x00\x07default", &table[..]].concat();
        let mut old = MAGIC.to_vec();
        old.extend_from_slice(&1_u32.to_le_bytes());
        old.extend_from_slice(&[0; 4]);
        old.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        old.extend_from_slice(&sum(1, payload.len() as u64, &payload).to_le_bytes());
        old.extend_from_slice(&payload);
        let fs = ssd::Memory::default();
        let dir = Path::new("/dir");
        fs.create_dir_all(dir).expect("directory");
        let mut file = fs.create(&dir.join(NAME)).expect("file");
        file.append(&old).expect("written");
        drop(file);
        let state = read(&fs, dir).expect("read").expect("a state");
        let tables: Vec<_> = state.tables().collect();
        assert_eq!((tables[0].id, &tables[0].largest[..]), (5, &b"kb"[..]));
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let fs = ssd::Memory::default();
        let dir = Path::new("/dir");
        fs.create_dir_all(dir).expect("directory");
        assert!(read(&fs, dir).expect("none").is_none());
        let state = ManifestState::fresh();
        write(&fs, dir, &state).expect("written");
        assert_eq!(read(&fs, dir).expect("read"), Some(state.clone()));
        let good = encode(&state);
        assert!(payload(&good).is_ok());
        for at in 0..good.len() {
            assert!(payload(&good[..at]).is_err(), "cut at {at}");
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(payload(&bad).is_err(), "changed at {at}");
        }
        let mut newer = good;
        newer[8] = 4;
        assert!(matches!(payload(&newer), Err(Refusal::Version(4))));
        remove(&fs, dir);
        assert!(read(&fs, dir).expect("none").is_none());
    }
}
