//! Files of a directory in one small file: stretches of zeros are left out, the rest is compressed.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A file or directory of a packed directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the directory.
    pub path: PathBuf,
    /// The bytes of a file; `None` for a directory.
    pub bytes: Option<Vec<u8>>,
}

const MAGIC: &[u8; 8] = b"golden 1";
/// Bytes that are left out together if they are zero.
const PAGE: usize = 64;

/// What is in the directory `dir`, in the order of paths.
///
/// # Errors
/// What cannot be read, or is neither file nor directory.
pub fn read_dir(dir: &Path) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    gather(dir, Path::new(""), &mut entries)?;
    Ok(entries)
}

fn gather(dir: &Path, at: &Path, entries: &mut Vec<Entry>) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let here = dir.join(at);
    let listed = fs::read_dir(&here).map_err(|error| failed(&here, error))?;
    let mut names: Vec<_> = listed
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<_, _>>()
        .map_err(|error| failed(&here, error))?;
    names.sort();
    for name in names {
        let path = at.join(name);
        let full = dir.join(&path);
        let kind = fs::symlink_metadata(&full).map_err(|error| failed(&full, error))?;
        if kind.is_dir() {
            entries.push(Entry { path: path.clone(), bytes: None });
            gather(dir, &path, entries)?;
        } else if kind.is_file() {
            let bytes = fs::read(&full).map_err(|error| failed(&full, error))?;
            entries.push(Entry { path, bytes: Some(bytes) });
        } else {
            return Err(format!("{}: neither file nor directory", full.display()));
        }
    }
    Ok(())
}

/// Writes what was packed to the directory `dir`, which is made.
///
/// # Errors
/// What cannot be written.
pub fn write_dir(entries: &[Entry], dir: &Path) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for entry in entries {
        let path = dir.join(&entry.path);
        match &entry.bytes {
            Some(bytes) => fs::write(&path, bytes),
            None => fs::create_dir(&path),
        }
        .map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Packs entries.
pub fn pack(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        let path = entry.path.as_os_str().as_encoded_bytes();
        number(&mut out, path.len());
        out.extend_from_slice(path);
        match &entry.bytes {
            None => number(&mut out, 0),
            Some(bytes) => {
                number(&mut out, bytes.len() + 1);
                pack_bytes(bytes, &mut out);
            }
        }
    }
    let mut packed = MAGIC.to_vec();
    packed.extend_from_slice(&lz4_flex::block::compress_prepend_size(&out));
    packed
}

/// Zero pages and other pages in turn, until all bytes are there.
fn pack_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut pages = bytes.chunks(PAGE).peekable();
    while pages.peek().is_some() {
        let mut zeros = 0;
        while pages.next_if(|page| page.iter().all(|byte| *byte == 0)).is_some() {
            zeros += 1;
        }
        let mut others = Vec::new();
        while let Some(page) = pages.next_if(|page| page.iter().any(|byte| *byte != 0)) {
            others.extend_from_slice(page);
        }
        number(out, zeros);
        number(out, others.len());
        out.extend_from_slice(&others);
    }
}

fn number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u64).to_le_bytes());
}

/// What was packed.
///
/// # Errors
/// What is wrong with the bytes.
pub fn unpack(packed: &[u8]) -> Result<Vec<Entry>, String> {
    let body = packed.strip_prefix(MAGIC).ok_or("not a packed directory")?;
    let bytes = lz4_flex::block::decompress_size_prepended(body)
        .map_err(|error| format!("damaged: {error}"))?;
    let mut rest = &bytes[..];
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let len = take_number(&mut rest)?;
        let path = std::str::from_utf8(take(&mut rest, len)?).map_err(|error| error.to_string())?;
        let path = PathBuf::from(path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(format!("{}: leads out of the directory", path.display()));
        }
        let bytes = match take_number(&mut rest)?.checked_sub(1) {
            Some(len) => Some(unpack_bytes(len, &mut rest)?),
            None => None,
        };
        entries.push(Entry { path, bytes });
    }
    Ok(entries)
}

fn unpack_bytes(len: usize, rest: &mut &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let zeros = take_number(rest)?.min(len.div_ceil(PAGE)) * PAGE;
        bytes.resize((bytes.len() + zeros).min(len), 0);
        let others = take_number(rest)?;
        bytes.extend_from_slice(take(rest, others)?);
        if zeros + others == 0 {
            return Err("a file ends too early".into());
        }
    }
    if bytes.len() == len { Ok(bytes) } else { Err("a file is too long".into()) }
}

fn take_number(rest: &mut &[u8]) -> Result<usize, String> {
    let bytes: [u8; 8] = take(rest, 8)?.try_into().map_err(|_| "cut short")?;
    usize::try_from(u64::from_le_bytes(bytes)).map_err(|error| error.to_string())
}

fn take<'b>(rest: &mut &'b [u8], len: usize) -> Result<&'b [u8], String> {
    let (taken, after) = rest.split_at_checked(len).ok_or("cut short")?;
    *rest = after;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let file = |path: &str, bytes: Vec<u8>| Entry { path: path.into(), bytes: Some(bytes) };
        let mut sparse = vec![0; 3 << 20];
        sparse[70_000..70_100].fill(7);
        let entries = [
            file("empty", Vec::new()),
            file("pool", sparse.clone()),
            Entry { path: "sst".into(), bytes: None },
            file("sst/1", (0..1000_u32).flat_map(u32::to_le_bytes).collect()),
            file("zeros", vec![0; 100]),
            file("zeros before a byte", [vec![0; 129], vec![1]].concat()),
        ];
        let packed = pack(&entries);
        assert!(packed.len() < 5000, "{}", packed.len());
        assert_eq!(unpack(&packed).expect("whole"), entries);
        for len in (0..packed.len()).step_by(7) {
            assert!(unpack(&packed[..len]).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn no_path_leads_out() {
        let entry = Entry { path: "../pool".into(), bytes: None };
        assert!(unpack(&pack(&[entry])).is_err());
    }
}
