//! Keys: one per key number, in one of two forms.

use super::rng::mix;

/// How keys look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As db_bench makes them: the number in 8 bytes, greatest first, then `0` up to the key size.
    Number,
    /// Paths of a file tree: 40 to 120 bytes, with long prefixes in common.
    Path,
    /// As YCSB makes them: `user`, then the number in digits, `0` before it up to the key size.
    User,
}

/// Makes keys.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// How they look.
    pub form: Form,
    /// Bytes of a key that is no path.
    pub size: usize,
}

/// What keys in user form begin with.
const USER: &[u8] = b"user";

/// Files per folder of a path key.
const FOLDER: u64 = 48;
const PATH_MIN: usize = 40;
const PATH_MAX: usize = 120;

const ROOTS: [&str; 4] = [
    "/srv/projects/photos",
    "/srv/projects/sources",
    "/home/shared/documents",
    "/var/archive/mail",
];
const FOLDERS: [&str; 16] = [
    "2021",
    "2022",
    "2023",
    "2024",
    "autumn",
    "build",
    "drafts",
    "exports",
    "incoming",
    "invoices",
    "library",
    "meetings",
    "originals",
    "reports",
    "scans",
    "translations",
];
const FILES: [&str; 8] =
    ["IMG", "chapter", "figure", "index", "letter", "minutes", "recording", "statement"];
const ENDINGS: [&str; 6] = ["jpg", "md", "pdf", "rs", "txt", "tar.zst"];

impl Keys {
    /// Writes key `number` into `key`, replacing what is there.
    #[inline]
    pub fn write(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        match self.form {
            Form::Number => {
                let digits = self.size.min(8);
                key.extend_from_slice(&number.to_be_bytes()[8 - digits..]);
                key.resize(self.size, b'0');
            }
            Form::Path => write_path(number, key),
            Form::User => write_user(number, self.size, key),
        }
    }

    /// Bytes of an average key.
    pub fn mean_len(&self, num: u64) -> f64 {
        match self.form {
            Form::Number | Form::User => self.size as f64,
            Form::Path => {
                let (mut key, sample) = (Vec::new(), num.clamp(1, 1000));
                let lens = (0..sample).map(|i| {
                    self.write(i * (num / sample).max(1), &mut key);
                    key.len() as f64
                });
                lens.sum::<f64>() / sample as f64
            }
        }
    }
}

fn write_user(number: u64, size: usize, key: &mut Vec<u8>) {
    use std::io::Write;
    let digits = size.saturating_sub(USER.len());
    key.extend_from_slice(USER);
    let _vectors_do_not_fail = write!(key, "{number:0digits$}");
}

/// A folder for every [`FOLDER`] numbers; folders that follow each other share most of their path.
fn write_path(number: u64, key: &mut Vec<u8>) {
    let (folder, file) = (number / FOLDER, mix(number));
    let group = mix(folder / 64);
    key.extend_from_slice(pick(&ROOTS, group).as_bytes());
    for level in 0..2 + (group >> 8) % 4 {
        push(key, pick(&FOLDERS, group >> (12 + 4 * level)));
    }
    push(key, pick(&FOLDERS, mix(folder)));
    push_number(key, "-", folder);
    push(key, pick(&FILES, file));
    push_number(key, "_", number);
    let ending = pick(&ENDINGS, file >> 8);
    let whole = key.len() + 1 + ending.len();
    if whole < PATH_MIN {
        key.resize(key.len() + PATH_MIN - whole, b'0');
    }
    key.push(b'.');
    key.extend_from_slice(ending.as_bytes());
    debug_assert!((PATH_MIN..=PATH_MAX).contains(&key.len()));
}

fn pick<'a>(words: &[&'a str], choice: u64) -> &'a str {
    words[(choice % words.len() as u64) as usize]
}

fn push(key: &mut Vec<u8>, part: &str) {
    key.push(b'/');
    key.extend_from_slice(part.as_bytes());
}

fn push_number(key: &mut Vec<u8>, before: &str, number: u64) {
    use std::io::Write;
    let _vectors_do_not_fail = write!(key, "{before}{number:06}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_keys_are_those_of_db_bench() {
        let mut key = Vec::new();
        Keys { form: Form::Number, size: 16 }.write(0x0102, &mut key);
        assert_eq!(key, b"\0\0\0\0\0\0\x01\x0200000000");
        Keys { form: Form::Number, size: 4 }.write(0x0102, &mut key);
        assert_eq!(key, b"\0\0\x01\x02");
    }

    #[test]
    fn user_keys_are_those_of_ycsb() {
        let mut key = Vec::new();
        Keys { form: Form::User, size: 23 }.write(6_284_781_860_667_377_211, &mut key);
        assert_eq!(key, b"user6284781860667377211");
        Keys { form: Form::User, size: 23 }.write(42, &mut key);
        assert_eq!(key, b"user0000000000000000042");
    }

    #[test]
    fn paths_are_unique_and_of_a_paths_length() {
        let keys = Keys { form: Form::Path, size: 16 };
        let numbers = (0..20_000).chain([u64::MAX, u64::MAX - 1, 1 << 40]);
        let paths: std::collections::BTreeSet<Vec<u8>> = numbers
            .map(|number| {
                let mut key = Vec::new();
                keys.write(number, &mut key);
                assert!((PATH_MIN..=PATH_MAX).contains(&key.len()), "{}", key.len());
                key
            })
            .collect();
        assert_eq!(paths.len(), 20_003);
    }
}
