//! Inputs of fuzzing for tests of every build: what is kept in a folder, mutants of it, and noise.

use std::path::Path;

use crate::Rng;

/// The files in `folder` by name, as inputs.
///
/// # Panics
/// If there is none, or one cannot be read.
pub fn inputs(folder: &Path) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("no inputs in {}: {error}", folder.display()));
    let mut paths: Vec<_> =
        files.map(|file| file.expect("an entry of the folder").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no inputs in {}", folder.display());
    paths.iter().map(|path| std::fs::read(path).expect("an input")).collect()
}

/// Changes a few bytes, or how many there are.
pub fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len().max(1) as u64) as usize;
        // Most that matters stands at the end of blocks and files.
        let at = if rng.chance(1, 2) { at } else { bytes.len().saturating_sub(at % 64 + 1) };
        let random = rng.next() as u8;
        match (rng.below(8), bytes.get_mut(at)) {
            (0, _) => bytes.truncate(at),
            (1, Some(byte)) => *byte = 0,
            (2, Some(byte)) => *byte = 0xff,
            (3, Some(byte)) => *byte = byte.wrapping_add(1),
            (4, Some(_)) => _ = bytes.remove(at),
            (5, _) => bytes.insert(at.min(bytes.len()), random),
            (_, Some(byte)) => *byte = random,
            (_, None) => bytes.push(random),
        }
    }
}

/// Calls `target` with every input, `mutants` mutants of each, and three thousand inputs of noise.
pub fn replay(inputs: &[Vec<u8>], mutants: usize, target: impl Fn(&[u8])) {
    let mut rng = Rng::new(7);
    for input in inputs {
        target(input);
        for _ in 0..mutants {
            let mut mutant = input.clone();
            mutate(&mut mutant, &mut rng);
            target(&mutant);
        }
    }
    for _ in 0..3000 {
        let noise: Vec<u8> = (0..rng.below(200)).map(|_| rng.next() as u8).collect();
        target(&noise);
    }
}
