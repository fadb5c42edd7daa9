//! What a text refers to has to be there.

use super::Finding;

/// Checks the links of a page, or the pages that a source file names.
pub fn check(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    if path.ends_with(".md") {
        check_page(path, text, exists)
    } else if path.ends_with(".rs") {
        check_source(path, text, exists)
    } else {
        Vec::new()
    }
}

fn check_page(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(line) {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !elsewhere && !file.is_empty() && !exists(&resolve(path, file)) {
                let what =
                    format!("links to {target}, which is not there; mend or remove the link");
                findings.push(Finding::new(path, at + 1, what));
            }
        }
    }
    findings
}

/// Where the links of a line lead: `](target)` and `]: target`.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let defined = line.starts_with('[').then(|| line.split_once("]: ")).flatten();
    inline.chain(defined.and_then(|(_, target)| target.split(' ').next())).collect()
}

/// `target` as seen from the root, when `page` links to it.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    if parts.is_empty() { ".".into() } else { parts.join("/") }
}

fn check_source(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some((_, comment)) = line.split_once("//") else { continue };
        for page in pages(comment).filter(|page| !exists(page)) {
            let what = format!("names {page}, which is not there; write it or name another");
            findings.push(Finding::new(path, at + 1, what));
        }
    }
    findings
}

/// Pages under `docs` that a comment names.
fn pages(comment: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| !(c.is_alphanumeric() || "/._-".contains(c));
    let words = comment.split(part).map(|word| word.trim_end_matches('.'));
    words.filter(|word| word.starts_with("docs/") && word.ends_with(".md"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exists(path: &str) -> bool {
        ["docs/format/pool.md", "docs/adr", "README.md", "."].contains(&path)
    }

    #[test]
    fn links_of_pages() {
        let good = "[a](../format/pool.md#x) [b](../../README.md), [c](https://x.y/z) [d](#here)\n\
                    [e]: ../../README.md\n```\n[f](none.md)\n```\n[g](../../)";
        assert_eq!(check("docs/adr/1.md", good, exists), []);
        let bad = check("docs/adr/1.md", "\n[a](pool.md) [b](none.md \"title\")", exists);
        assert_eq!(bad.iter().map(|f| f.line).collect::<Vec<_>>(), [2, 2]);
        assert!(bad[1].what.contains("none.md,"), "{bad:?}");
    }

    #[test]
    fn pages_in_comments() {
        assert_eq!(check("a.rs", "//! See `docs/format/pool.md`.", exists), []);
        assert_eq!(
            check("a.rs", concat!("let x = 1; /", "/ docs/format/none.md."), exists).len(),
            1
        );
        assert_eq!(check("a.rs", "let x = \"docs/format/none.md\";", exists), []);
    }
}
