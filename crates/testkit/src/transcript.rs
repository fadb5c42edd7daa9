//! What a store answered, boiled down to a number that two runs can compare.

/// A running hash (FNV-1a) of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    hash: u64,
    /// Answers noted.
    pub answers: u64,
}

impl Default for Transcript {
    fn default() -> Transcript {
        Transcript { hash: 0xcbf2_9ce4_8422_2325, answers: 0 }
    }
}

impl Transcript {
    fn word(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23);
    }

    /// Notes an answer: bytes, or that there were none.
    pub fn note(&mut self, answer: Option<&[u8]>) {
        self.answers += 1;
        let Some(bytes) = answer else { return self.word(u64::MAX) };
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// The hash of all answers so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
