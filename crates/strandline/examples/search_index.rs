//! A search index over the documents of a store, in a store of its own. A change stream keeps it in step: whichever of the two ends,
//! in whatever moment, the index goes on where it was, and has each change once.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use strandline::{
    Batch, Changed, Db, Keyspace, KeyspaceOptions, Options, Seq, StreamBatch, StreamOptions,
};

/// The name of the stream.
pub const STREAM: &str = "search";

/// Words, the documents that have them, and how far the index is.
pub struct SearchIndex {
    db: Db,
    /// A word, a zero and the name of a document.
    words: Keyspace,
    /// Documents as the index knows them: it has to find the words that go.
    texts: Keyspace,
    /// The last number that the index has.
    position: Keyspace,
}

impl SearchIndex {
    /// Opens the index, or makes an empty one.
    pub fn open(path: &Path, options: Options) -> strandline::Result<SearchIndex> {
        let db = Db::open(path, options)?;
        let space = |name| db.keyspace_or_create(name, KeyspaceOptions::new());
        let (words, texts, position) = (space("words")?, space("texts")?, space("position")?);
        Ok(SearchIndex { db, words, texts, position })
    }

    /// Everything up to this number is in the index.
    pub fn position(&self) -> strandline::Result<Seq> {
        let stored = self.position.get("upto")?;
        let number = stored.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
        Ok(Seq::new(number))
    }

    /// Brings a commit of the documents into the index. The position is written with it, so that each counts once, however often it
    /// comes.
    pub fn apply(&self, batch: &StreamBatch) -> strandline::Result<()> {
        if batch.last <= self.position()? {
            return Ok(());
        }
        let mut changes = Changes { index: self, batch: Batch::new(), texts: Default::default() };
        for change in &batch.changes {
            match &change.what {
                Changed::Put { key, value, .. } => changes.set(key, Some(value))?,
                Changed::Delete { key } => changes.set(key, None)?,
                Changed::DeleteRange { begin, end } => {
                    let mut gone: BTreeSet<Vec<u8>> = changes.texts.keys().cloned().collect();
                    for item in self.texts.range(&begin[..]..&end[..]) {
                        gone.insert(item?.0.to_vec());
                    }
                    let within = gone.range(begin.clone()..end.clone());
                    within.cloned().try_for_each(|key| changes.set(&key, None))?;
                }
                // Documents are not merged, and their keyspace stays.
                _ => {}
            }
        }
        let mut commit = changes.batch;
        commit.put(&self.position, "upto", batch.last.get().to_be_bytes());
        self.db.write(&commit)
    }

    /// The names of the documents that have a word.
    pub fn search(&self, word: &str) -> strandline::Result<Vec<String>> {
        let prefix = [word.as_bytes(), b"\0"].concat();
        let name = |item: strandline::Result<(strandline::Slice, strandline::Slice)>| {
            Ok(String::from_utf8_lossy(&item?.0[prefix.len()..]).into_owned())
        };
        self.words.prefix(&prefix).map(name).collect()
    }

    /// All that the index has: words with documents.
    pub fn all(&self) -> strandline::Result<Vec<Vec<u8>>> {
        self.words.iter().map(|item| Ok(item?.0.to_vec())).collect()
    }
}

/// What a commit changes in the index.
struct Changes<'i> {
    index: &'i SearchIndex,
    batch: Batch,
    /// Texts that the commit changed so far.
    texts: std::collections::BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Changes<'_> {
    fn set(&mut self, name: &[u8], text: Option<&[u8]>) -> strandline::Result<()> {
        let before = match self.texts.get(name) {
            Some(before) => before.clone(),
            None => self.index.texts.get(name)?,
        };
        for word in before.iter().flat_map(|text| words(text)) {
            self.batch.delete(&self.index.words, entry(&word, name));
        }
        match text {
            Some(text) => {
                for word in words(text) {
                    self.batch.put(&self.index.words, entry(&word, name), "");
                }
                self.batch.put(&self.index.texts, name, text);
            }
            None => self.batch.delete(&self.index.texts, name),
        }
        self.texts.insert(name.to_vec(), text.map(<[u8]>::to_vec));
        Ok(())
    }
}

/// The words of a text, each once.
pub fn words(text: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(text).to_lowercase();
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The key of a word of a document.
pub fn entry(word: &str, name: &[u8]) -> Vec<u8> {
    [word.as_bytes(), b"\0", name].concat()
}

/// Brings the index in step with the documents. What is in it durably is acknowledged, some commits at a time.
pub fn follow(documents: &Db, index: &SearchIndex) -> strandline::Result<()> {
    let mut stream = documents.stream(STREAM)?;
    let mut unacknowledged = 0;
    while let Some(batch) = stream.wait(Duration::from_millis(10))? {
        index.apply(&batch)?;
        unacknowledged += 1;
        if unacknowledged == 100 {
            stream.ack(batch.last)?;
            unacknowledged = 0;
        }
    }
    stream.ack(stream.given())
}

/// Runs the example.
pub fn main() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let options = Options::default().pm_size(16 << 20);
    let (documents, index) = (directory.path().join("documents"), directory.path().join("index"));
    let open = || Db::open(&documents, options.clone());

    let db = open()?;
    db.create_stream(STREAM, StreamOptions::new())?;
    db.put("note/1", "Strandline is an engine")?;
    db.put("note/2", "A strand, a line, and an engine of records")?;
    let search = SearchIndex::open(&index, options.clone())?;
    follow(&db, &search)?;
    assert_eq!(search.search("engine")?, ["note/1", "note/2"]);

    // The index ends, and documents change meanwhile.
    drop(search);
    db.put("note/2", "A strand and a line")?;
    db.put("note/3", "Engines")?;
    drop(db);

    // Both are back. What came meanwhile was kept. This time the index ends before it acknowledges.
    let db = open()?;
    let search = SearchIndex::open(&index, options.clone())?;
    let mut stream = db.stream(STREAM)?;
    let batch = stream.wait(Duration::ZERO)?.expect("note 2");
    search.apply(&batch)?;
    drop((search, stream));

    // So it comes again, and changes nothing.
    let search = SearchIndex::open(&index, options)?;
    assert_eq!(db.stream(STREAM)?.wait(Duration::ZERO)?, Some(batch));
    follow(&db, &search)?;
    assert_eq!(search.search("engine")?, ["note/1"]);
    assert_eq!(search.search("line")?, ["note/2"]);
    assert_eq!(search.search("engines")?, ["note/3"]);
    let (entries, upto) = (search.all()?.len(), search.position()?);
    println!("documents up to {upto} are in the index, with {entries} words");
    Ok(())
}
