//! Every call fails in its turn, in every way: what has a name that counts is whole.

use std::path::Path;
use std::sync::Arc;

use base::{ErrorKind, Result};
use ssd::{Append, Call, Failure, Faulty, Fs, Memory, PageCache, Posix, Rule, durable_install};

const OLD: &[u8] = b"old content";
const NEW: &[u8] = b"a new and longer content";

fn install(fs: &dyn Fs, dir: &Path, bytes: &[u8]) -> Result<()> {
    durable_install(fs, &dir.join("CURRENT.tmp"), &dir.join("CURRENT"), |file| {
        bytes.chunks(7).try_for_each(|chunk| file.append(chunk))
    })
}

fn current(fs: &dyn Fs, dir: &Path) -> Option<Vec<u8>> {
    let file = match fs.open(&dir.join("CURRENT")) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        opened => opened.unwrap(),
    };
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    Some(bytes)
}

/// Which calls a rule fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    One,
    AllFromOneOn,
}

/// The i-th call of an install fails, for all i, with `old` there before; returns how many there are.
fn each_call_fails<F: Fs>(fs: &Faulty<F>, dir: &Path, failure: Failure, fails: Fails) -> u64 {
    fs.create_dir_all(dir).unwrap();
    for old in [None, Some(OLD)] {
        for i in 1.. {
            fs.set_rules(Vec::new());
            let _may_be_missing = fs.remove(&dir.join("CURRENT"));
            if let Some(old) = old {
                install(fs, dir, old).unwrap();
            }
            let rule = Rule::new(i, failure);
            fs.set_rules(vec![match fails {
                Fails::One => rule,
                Fails::AllFromOneOn => rule.for_ever(),
            }]);
            let struck = fs.struck();
            let installed = install(fs, dir, NEW);
            let struck = fs.struck() - struck;
            fs.set_rules(Vec::new());
            let found = current(fs, dir);
            if struck == 0 {
                installed.unwrap();
                assert_eq!(found.as_deref(), Some(NEW));
                if old.is_some() {
                    return i;
                }
                break;
            }
            // The first call removes what an earlier attempt left, the last one syncs the directory.
            let error = installed.unwrap_err();
            let wanted = match failure {
                Failure::NoSpace | Failure::Quota => ErrorKind::NoSpace,
                _ => ErrorKind::Io,
            };
            assert_eq!(error.kind(), wanted, "{error}");
            let whole = found.as_deref() == old || found.as_deref() == Some(NEW);
            assert!(whole, "call {i} failed with {failure:?}: {found:?}");
            // Once the fault is gone, nothing stands in the way.
            install(fs, dir, NEW).unwrap();
            assert_eq!(current(fs, dir).as_deref(), Some(NEW));
        }
    }
    unreachable!("an install ends")
}

#[test]
fn a_failed_write_in_place_is_final() {
    let fs = Faulty::new(Memory::default());
    let path = Path::new("f");
    fs.create(path).unwrap().append(b"aaaa").unwrap();
    let mut file = fs.overwrite(path).unwrap();
    file.write_at(2, b"bbbb").unwrap();
    assert_eq!(file.len(), 6);
    fs.set_rules(vec![Rule::new(1, Failure::Short).of(Call::Write).on("f")]);
    assert_eq!(file.write_at(0, b"cccc").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(file.write_at(0, b"cccc").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Closed);
    let mut found = [0; 6];
    fs.open(path).unwrap().read_at(0, &mut found).unwrap();
    assert_eq!(&found, b"ccbbbb");
    assert_eq!(fs.overwrite(Path::new("g")).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn an_install_whose_ith_call_fails_leaves_the_old_or_the_new() {
    let scratch = tempfile::tempdir().unwrap();
    for failure in Failure::ALL {
        for fails in [Fails::One, Fails::AllFromOneOn] {
            let calls =
                each_call_fails(&Faulty::new(Memory::default()), "/m".as_ref(), failure, fails);
            assert_eq!(calls, 10, "remove, create, 4 appends, sync, rename, sync_dir; then none");
            each_call_fails(
                &Faulty::new(Posix::new(PageCache::Used)),
                scratch.path(),
                failure,
                fails,
            );
        }
    }
}

#[test]
fn a_failure_is_final_for_its_handle() {
    for (call, failure) in [(Call::Append, Failure::NoSpace), (Call::Sync, Failure::Io)] {
        let fs = Faulty::new(Memory::default());
        fs.set_rules(vec![Rule::new(1, failure).of(call)]);
        let mut file = fs.create("f".as_ref()).unwrap();
        let _one_of_them_fails = (file.append(b"x"), file.sync());
        assert_eq!(file.append(b"y").unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!((fs.struck(), fs.calls(call)), (1, 1));
    }
}

#[test]
fn a_full_device_is_told_by_path_and_ends_the_handle() {
    let fs = Memory::with_capacity(ssd::Disk::default(), 10);
    let mut file = fs.create("/d.log".as_ref()).unwrap();
    file.append(b"0123456789").unwrap();
    assert_eq!(fs.free_bytes("/".as_ref()).unwrap(), 0);
    let error = file.append(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.to_string().contains("/d.log"), "{error}");
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Closed);
    drop(file);
    fs.remove("/d.log".as_ref()).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    assert_eq!(fs.free_bytes("/".as_ref()).unwrap(), 10);
}

#[test]
fn a_failed_sync_may_lose_the_pages() {
    let fs = Faulty::new(Memory::default());
    let mut file = fs.create("f".as_ref()).unwrap();
    file.append(b"kept").unwrap();
    file.sync().unwrap();
    file.append(b"lost").unwrap();
    fs.set_rules(vec![Rule::new(1, Failure::LosesPages).of(Call::Sync).on("f")]);
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
    let mut bytes = [0; 8];
    fs.open("f".as_ref()).unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"kept\0\0\0\0");
}

#[test]
fn rules_count_what_they_are_about() {
    let fs = Arc::new(Faulty::new(Memory::default()));
    fs.set_rules(vec![
        Rule::new(2, Failure::Io).of(Call::Create).on(".sst"),
        Rule::new(1, Failure::Quota).of(Call::Remove).for_ever(),
    ]);
    let create = |name: &str| fs.create(name.as_ref()).map(drop).map_err(|e| e.kind());
    assert_eq!(create("1.sst"), Ok(()));
    assert_eq!(create("2.log"), Ok(()));
    assert_eq!(create("3.sst"), Err(ErrorKind::Io));
    assert_eq!(create("3.sst"), Ok(()));
    for _ in 0..3 {
        assert_eq!(fs.remove("1.sst".as_ref()).unwrap_err().kind(), ErrorKind::NoSpace);
    }
    assert_eq!((fs.struck(), fs.calls(Call::Create), fs.calls(Call::Remove)), (4, 4, 3));
    let as_fs: Arc<dyn Fs> = fs.clone();
    assert_eq!(as_fs.describe(), "faulty memory");
}

#[test]
fn half_of_a_short_append_is_in_the_file() {
    let fs = Faulty::new(Memory::default());
    fs.set_rules(vec![Rule::new(1, Failure::Short).of(Call::Append)]);
    let mut file: Box<dyn Append> = fs.create("f".as_ref()).unwrap();
    assert_eq!(file.append(b"12345678").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(fs.open("f".as_ref()).unwrap().len(), 4);
}
