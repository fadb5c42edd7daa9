//! Zstandard, by the C library.

use std::cell::RefCell;

use zstd::zstd_safe::{CCtx, CParameter, DCtx, DDict, compress_bound};

use super::Failure;

thread_local! {
    // Making one costs more than decompressing a block.
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// A dictionary, made ready for use.
pub(super) struct DecodeDictionary(DDict<'static>);

impl DecodeDictionary {
    /// `None` if it is none.
    pub(super) fn new(bytes: &[u8]) -> Option<DecodeDictionary> {
        DDict::try_create(bytes).map(DecodeDictionary)
    }
}

/// Decompresses `bytes` into the capacity of `out`, which is empty; `None` if they are not what Zstandard writes.
pub(super) fn decompress(
    bytes: &[u8],
    dictionary: Option<&DecodeDictionary>,
    out: &mut Vec<u8>,
) -> Result<Option<usize>, Failure> {
    let done = CONTEXT.with_borrow_mut(|context| {
        let context = context.get_or_insert_with(DCtx::create);
        match dictionary {
            Some(dictionary) => context.decompress_using_ddict(out, bytes, &dictionary.0),
            None => context.decompress(out, bytes),
        }
    });
    Ok(done.ok())
}

/// Compresses blocks.
pub(super) struct Encoder(CCtx<'static>);

impl Encoder {
    pub(super) fn new(level: i32) -> Option<Encoder> {
        let mut context = CCtx::create();
        // Refused only for levels out of range; then the library's own default stays.
        _ = context.set_parameter(CParameter::CompressionLevel(level));
        Some(Encoder(context))
    }

    /// Appends what `block` becomes to `out`, and gives back how long that is then.
    pub(super) fn append(&mut self, block: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let head = out.len();
        out.resize(head + compress_bound(block.len()), 0);
        self.0.compress2(&mut out[head..], block).ok().map(|len| head + len)
    }
}
