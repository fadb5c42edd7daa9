//! A phone book: names in order, from both ends, by range and by prefix. Keys are whatever is bytes.

use std::io;

use strandline::{Db, Options, Slice};

fn text(bytes: &[u8]) -> io::Result<&str> {
    std::str::from_utf8(bytes).map_err(io::Error::other)
}

/// Who is under a letter, the last first.
fn page(book: &Db, letter: char) -> io::Result<Vec<String>> {
    let mut page = Vec::new();
    for entry in book.prefix(letter.to_string()).rev() {
        let (name, number) = entry?;
        page.push(format!("{} {}", text(&name)?, text(&number)?));
    }
    Ok(page)
}

/// Runs the example.
pub fn main() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let book = Db::open(dir.path(), Options::default().pm_size(16 << 20))?;
    for (name, number) in
        [("adams", 11), ("baker", 12), ("brown", 13), ("clark", 14), ("davis", 15)]
    {
        book.put(name, format!("555-{number:04}"))?;
    }
    // A string, bytes that are owned, an array.
    book.put(String::from("evans"), vec![b'?'])?;
    book.put(Vec::from("frank"), *b"555-0017")?;
    book.put([b'z'; 5], "555-0099")?;

    assert_eq!(page(&book, 'b')?, ["brown 555-0013", "baker 555-0012"]);
    assert!(page(&book, 'x')?.is_empty());

    // Both ends of one iterator, which never meet a name twice.
    let mut names = book.keys();
    let (first, last) = (names.next().transpose()?, names.next_back().transpose()?);
    assert_eq!((first, last), (Some(Slice::from("adams")), Some(Slice::from("zzzzz"))));
    let between = names.collect::<Result<Vec<_>, _>>()?;
    assert_eq!(between.len(), 6);

    // What a name lies between; the neighbours of one that is not there.
    let after = book.range("bz"..).next().transpose()?.map(|(name, _)| name);
    let before = book.range(.."bz").next_back().transpose()?.map(|(name, _)| name);
    assert_eq!((before, after), (Some(Slice::from("brown")), Some(Slice::from("clark"))));
    assert_eq!(book.range("baker"..="clark").count(), 3);

    // Several at one moment.
    let wanted = ["davis", "erica", "adams"];
    let found = book.multi_get(wanted)?;
    let found: Vec<Option<&str>> = found
        .iter()
        .map(|number| number.as_deref().map(text).transpose())
        .collect::<Result<_, _>>()?;
    assert_eq!(found, [Some("555-0015"), None, Some("555-0011")]);

    book.delete_range("b", "d")?;
    assert!(!book.contains_key("clark")? && book.contains_key("davis")?);
    Ok(())
}
