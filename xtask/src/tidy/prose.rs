//! Pages that are read from start to end stay short.

use super::Finding;

/// Words of a page at most, counted as `wc -w` does.
const WORDS_MAX: [(&str, usize); 2] = [("ARCHITECTURE.md", 1300), ("README.md", 1200)];

/// Checks one file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let limit = WORDS_MAX.iter().find(|(page, _)| *page == path);
    let words = text.split_whitespace().count();
    let beyond = limit.filter(|(_, limit)| words > *limit);
    let what = |(_, limit): &(&str, usize)| {
        format!("{words} words; at most {limit}: move what is not for every reader below docs")
    };
    beyond.map(|beyond| Finding::new(path, 1, what(beyond))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pages() {
        let (page, limit) = WORDS_MAX[0];
        assert_eq!(check(page, &"word ".repeat(limit)), []);
        assert_eq!(check(page, &"word ".repeat(limit + 1)).len(), 1);
        assert_eq!(check("docs/map.md", &"word ".repeat(limit + 1)), []);
    }
}
