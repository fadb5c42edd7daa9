//! Why a life ended by itself: an answer was wrong, or something else failed. Only the first is what planted bugs are to be found by.

use std::fmt;
use std::path::Path;

use strandline::{Error, ErrorKind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HitFailure {
    /// An answer that must not be, or bytes of a store that are damaged though no fault was made.
    Violation(String),
    /// All else: what the system refused, an error that is no answer, a child that is gone.
    Other(String),
}

impl HitFailure {
    /// An error of the engine, told as `text`.
    pub fn of(error: &Error, text: String) -> HitFailure {
        match error.kind() {
            ErrorKind::Corruption => HitFailure::Violation(text),
            _ => HitFailure::Other(text),
        }
    }

    fn text(&self) -> &str {
        match self {
            HitFailure::Violation(text) | HitFailure::Other(text) => text,
        }
    }

    /// The same, with more said of it.
    pub fn map(self, say: impl FnOnce(String) -> String) -> HitFailure {
        match self {
            HitFailure::Violation(text) => HitFailure::Violation(say(text)),
            HitFailure::Other(text) => HitFailure::Other(say(text)),
        }
    }

    /// The same, met by `who`.
    pub fn met_by(self, who: &str) -> HitFailure {
        self.map(|text| format!("{who}: {text}"))
    }

    /// Writes a violation to `path`, for the parent. Other failures are told by how the process ends.
    pub fn leave(&self, path: &Path) {
        if let HitFailure::Violation(text) = self {
            let _told_on_standard_error_too = std::fs::write(path, text);
        }
    }

    /// The violation that a child left at `path`. One that was killed before all was written has left it as well.
    pub fn left(path: &Path) -> Option<HitFailure> {
        let bytes = std::fs::read(path).ok()?;
        Some(HitFailure::Violation(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl fmt::Display for HitFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl From<Error> for HitFailure {
    fn from(error: Error) -> HitFailure {
        let text = error.to_string();
        HitFailure::of(&error, text)
    }
}

/// What this program itself could not do.
impl From<String> for HitFailure {
    fn from(text: String) -> HitFailure {
        HitFailure::Other(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wrong_answers_and_damage_are_violations() {
        let error = |kind| HitFailure::from(Error::new(kind, "get", "seen"));
        let damage = error(ErrorKind::Corruption);
        assert!(matches!(damage, HitFailure::Violation(_)), "{damage:?}");
        for kind in ErrorKind::ALL.into_iter().filter(|kind| *kind != ErrorKind::Corruption) {
            assert!(matches!(error(kind), HitFailure::Other(_)), "{kind:?}");
        }
        let met = damage.met_by("a reader");
        assert!(met.text().starts_with("a reader: ") && matches!(met, HitFailure::Violation(_)));
    }

    #[test]
    fn a_child_leaves_violations_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("violation");
        HitFailure::Other("no space".into()).leave(&path);
        assert_eq!(HitFailure::left(&path), None);
        let wrong = HitFailure::Violation("another version".into());
        wrong.leave(&path);
        assert_eq!(HitFailure::left(&path), Some(wrong));
    }
}
