//! What is written without being read first: sets, logs, highest and lowest, by the operators of the library. A value that an
//! operator cannot take costs its own key, and no other.

use std::io;

use strandline::operators::{decode_set, encode_set};
use strandline::{Db, ErrorKind, Keyspace, KeyspaceOptions, Options, PmSource};

fn with(db: &Db, operator: &str) -> strandline::Result<Keyspace> {
    db.create_keyspace_with(operator, KeyspaceOptions::new().merge_operator(operator))
}

/// Runs the example.
pub fn main() -> io::Result<()> {
    let db = Db::open("unused-for-heap", Options::default().pm(PmSource::Heap).pm_size(16 << 20))?;

    // Sets.
    let tags = with(&db, "set-union")?;
    tags.merge("photo 1", encode_set(["sea", "sun"]))?;
    tags.merge("photo 1", encode_set(["boat", "sea"]))?;
    let set = tags.get("photo 1")?.unwrap_or_default();
    assert_eq!(decode_set(&set), Some(vec![&b"boat"[..], b"sea", b"sun"]));

    // A log for each key; what stands between two entries follows the name.
    let notes = with(&db, "append:\n")?;
    for entry in ["opened", "asked", "answered"] {
        notes.merge("ticket 7", entry)?;
    }
    assert_eq!(notes.get("ticket 7")?.as_deref(), Some(&b"opened\nasked\nanswered"[..]));

    // Bytes are compared: numbers in big-endian, of one length, compare as numbers do.
    let (highest, lowest) = (with(&db, "max")?, with(&db, "min")?);
    for degrees in [300_u32, 20, 280] {
        highest.merge("oven", degrees.to_be_bytes())?;
        lowest.merge("oven", degrees.to_be_bytes())?;
    }
    assert_eq!(highest.get("oven")?.as_deref(), Some(&300_u32.to_be_bytes()[..]));
    assert_eq!(lowest.get("oven")?.as_deref(), Some(&20_u32.to_be_bytes()[..]));

    // Sums: eight bytes, little-endian. What goes down is a negative number.
    let stock = with(&db, "add")?;
    stock.merge("lamps", 12_i64.to_le_bytes())?;
    stock.merge("lamps", (-5_i64).to_le_bytes())?;
    assert_eq!(stock.get("lamps")?.as_deref(), Some(&7_i64.to_le_bytes()[..]));

    // An operand that is no number is refused at once.
    let refused = stock.merge("lamps", "three").expect_err("five bytes");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    // A put may be anything; where it is no number, the key cannot be read once something was added to it.
    stock.put("chairs", "many")?;
    stock.merge("chairs", 1_i64.to_le_bytes())?;
    assert_eq!(stock.get("chairs").expect_err("four bytes").kind(), ErrorKind::Hook);
    let (read, failed): (Vec<_>, Vec<_>) = stock.iter().partition(Result::is_ok);
    assert_eq!((read.len(), failed.len()), (1, 1), "the others are read");
    for unmerged in db.check()?.unmerged {
        db.keyspace(&unmerged.keyspace)?.put(&unmerged.key, 40_i64.to_le_bytes())?;
    }
    stock.merge("chairs", 1_i64.to_le_bytes())?;
    assert_eq!(stock.get("chairs")?.as_deref(), Some(&41_i64.to_le_bytes()[..]));
    Ok(())
}
