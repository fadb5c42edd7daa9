//! Limits of memory that control groups (cgroups) set. A machine has hierarchies of version 1, of version 2, or of both; a
//! group has at most what each group above it has, as far up as this process sees them.

use std::path::{Component, Path, PathBuf};

use super::read;

/// Beyond this a number says that there is no limit: version 1 has one a little below 8 EiB for that.
const LIMIT_MAX: u64 = 1 << 60;

pub(super) struct GroupLimit {
    pub bytes: u64,
    /// The file that says it.
    pub file: PathBuf,
}

/// All limits on memory of this process.
pub(super) fn limits(root: &Path) -> Vec<GroupLimit> {
    let text = |path: &str| read(root, Path::new(path)).unwrap_or_default();
    let (groups, mounts) = (text("/proc/self/cgroup"), text("/proc/self/mountinfo"));
    let mut files = Vec::new();
    for version in [GroupVersion::One, GroupVersion::Two] {
        let Some(group) = groups.lines().find_map(|line| version.group_in(line)) else { continue };
        let mounts = mounts.lines().filter_map(|line| GroupMount::parse(line, version));
        let mounts: Vec<GroupMount> = mounts.collect();
        for dir in dirs(&mounts, Path::new(group)) {
            files.extend(version.files().iter().map(|name| dir.join(name)));
        }
    }
    let limit = |file: PathBuf| {
        let bytes = read(root, &file)?.trim().parse().ok()?;
        (bytes < LIMIT_MAX).then_some(GroupLimit { bytes, file })
    };
    files.into_iter().filter_map(limit).collect()
}

/// The directories of `group` and of those above it.
fn dirs(mounts: &[GroupMount], group: &Path) -> Vec<PathBuf> {
    let shown = |mount: &GroupMount| {
        let dir = mount.dir(group)?;
        let within = dir.ancestors().take_while(|dir| dir.starts_with(&mount.at));
        Some(within.map(Path::to_owned).collect::<Vec<PathBuf>>())
    };
    let dirs: Vec<PathBuf> = mounts.iter().filter_map(shown).flatten().collect();
    if dirs.is_empty() {
        // The group is outside of all that is mounted. Too little memory is better than too much.
        return mounts.iter().map(|mount| mount.at.clone()).collect();
    }
    dirs
}

#[derive(Clone, Copy)]
enum GroupVersion {
    One,
    Two,
}

impl GroupVersion {
    /// Files that say what a group may have. Beyond `memory.high` its processes are slowed.
    fn files(self) -> &'static [&'static str] {
        match self {
            GroupVersion::One => &["memory.limit_in_bytes"],
            GroupVersion::Two => &["memory.max", "memory.high"],
        }
    }

    /// The group of this process, if a line of `/proc/self/cgroup` names it: `4:memory:/group` or `0::/group`.
    fn group_in(self, line: &str) -> Option<&str> {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match self {
            GroupVersion::One => has_memory(controllers),
            GroupVersion::Two => number == "0" && controllers.is_empty(),
        };
        is_it.then_some(group)
    }
}

fn has_memory(names: &str) -> bool {
    names.split(',').any(|name| name == "memory")
}

/// A place where a hierarchy of groups is mounted.
struct GroupMount {
    /// The group that is seen there. In a namespace of groups it may begin with `..`.
    group: PathBuf,
    at: PathBuf,
}

impl GroupMount {
    /// A line of `/proc/self/mountinfo`: `35 31 0:32 GROUP AT rw,relatime - cgroup cgroup rw,memory`.
    fn parse(line: &str, version: GroupVersion) -> Option<GroupMount> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (group, at) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let (kind, options) = (kind.next()?, kind.nth(1)?);
        let is_it = match version {
            GroupVersion::One => kind == "cgroup" && has_memory(options),
            GroupVersion::Two => kind == "cgroup2",
        };
        is_it.then(|| GroupMount { group: unescaped(group).into(), at: unescaped(at).into() })
    }

    /// The directory of a group, or of the nearest above it; `None` if it is not to be seen here.
    fn dir(&self, group: &Path) -> Option<PathBuf> {
        if let Ok(below) = group.strip_prefix(&self.group) {
            let is_named = below.components().all(|part| matches!(part, Component::Normal(_)));
            return is_named.then(|| self.at.join(below));
        }
        // Above the root of the namespace groups have no names: only what is mounted is known to be above this one.
        let mut above = self.group.components().skip(1);
        above.all(|part| part == Component::ParentDir).then(|| self.at.clone())
    }
}

/// A path of `/proc/self/mountinfo`, where blanks and the like are octal numbers.
fn unescaped(path: &str) -> String {
    let mut text = String::new();
    let mut rest = path;
    while let Some((before, behind)) = rest.split_once('\\') {
        text.push_str(before);
        let digits = behind.get(..3);
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                text.push(char::from(code));
                rest = &behind[3..];
            }
            None => {
                text.push('\\');
                rest = behind;
            }
        }
    }
    text + rest
}
