//! What a commit changes: one op for a key, or for the part of a range of keys that lies in one subrange.

use std::sync::Arc;

use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use base::{Error, ErrorKind, PmOffset, Result, Seq};

use crate::engine::Claim;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::{KeyspaceState, Routes};
use crate::record::extent::ExtentHold;
use crate::record::format::{self, Kind, Role, SeqForm, Shape, ZoneBinding};
use crate::record::store::hash;

/// One key's change within a commit.
#[derive(Clone)]
pub(crate) struct Op<'a> {
    pub space: &'a Arc<KeyspaceState>,
    pub kind: Kind,
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub(crate) stored: Stored,
    /// Place in the commit: sequence number less the commit's.
    pub(crate) place: u32,
    /// Position of its subrange, as of the last routing.
    pub(crate) position: u32,
    pub(crate) hash: u64,
    pub(crate) record: OpRecord,
}

/// The record of an op: its shape as of the last routing (W1), then where it lies (W2).
#[derive(Clone, Copy)]
pub(crate) struct OpRecord {
    pub shape: Shape,
    pub at: PmOffset,
    /// Whole lines, in the form that its zone asks for.
    pub len: u64,
    pub zone: ZoneBinding,
}

impl OpRecord {
    /// A void record that fills its place, for one that was never written.
    pub(crate) fn blank(&self, seq: Seq, published: Seq) -> Vec<u8> {
        let OpRecord { shape, len, zone, .. } = *self;
        // Without a key its length field may take less, so that the body takes as much as fills the last line.
        let mut blank = Shape { kind: Kind::Blank, key_len: 0, value_len: len as usize, ..shape };
        while blank.len(zone.form) > len {
            blank.value_len -= 1;
        }
        let mut out = Vec::with_capacity(len as usize);
        format::encode(&mut out, &blank, zone, seq, published, &[], &[]);
        out.resize(len as usize, 0);
        let mut first = [0; 8];
        first.copy_from_slice(&out[..8]);
        out[..8].copy_from_slice(&format::voided(u64::from_le_bytes(first)).to_le_bytes());
        out
    }
}

/// What a record holds instead of the key and the value that were given.
#[derive(Clone)]
pub(crate) enum Stored {
    AsGiven,
    /// A reference to where the value is.
    Extent(Arc<ExtentHold>, [u8; format::EXTENT_REF_LEN]),
    /// The value behind the time at which it expires.
    Timed(Vec<u8>),
    /// The part of a range deletion that lies in one subrange.
    Part(Box<(Vec<u8>, Vec<u8>)>),
}

impl<'a> Op<'a> {
    #[inline]
    pub(crate) fn new(
        space: &'a Arc<KeyspaceState>,
        kind: Kind,
        key: &'a [u8],
        value: &'a [u8],
    ) -> Op<'a> {
        let stored = Stored::AsGiven;
        let shape = Shape { kind, role: Role::Solo, key_len: key.len(), value_len: value.len() };
        let zone = ZoneBinding { seed: 0, base_seq: Seq::ZERO, form: SeqForm::Narrow };
        let record = OpRecord { shape, at: PmOffset::ZERO, len: 0, zone };
        Op { space, kind, key, value, stored, place: 0, position: 0, hash: hash(key), record }
    }

    /// As [`Op::new`], of a value that a caller gives: it expires in its time.
    #[inline]
    pub(crate) fn given(
        space: &'a Arc<KeyspaceState>,
        kind: Kind,
        key: &'a [u8],
        value: &'a [u8],
    ) -> Op<'a> {
        let op = Op::new(space, kind, key, value);
        match &space.expiry {
            Some(expiry) if kind == Kind::Put => op.timed(expiry.stamp(value)),
            _ => op,
        }
    }

    /// The same, with a value that is stored in this form.
    pub(crate) fn timed(self, stored: Vec<u8>) -> Op<'a> {
        Op { stored: Stored::Timed(stored), ..self }
    }

    #[inline]
    pub(crate) fn stored_key(&self) -> &[u8] {
        match &self.stored {
            Stored::Part(part) => &part.0,
            _ => self.key,
        }
    }

    #[inline]
    pub(crate) fn stored_value(&self) -> &[u8] {
        match &self.stored {
            Stored::AsGiven => self.value,
            Stored::Extent(_, reference) => reference,
            Stored::Timed(value) => value,
            Stored::Part(part) => &part.1,
        }
    }

    /// Whether it makes no key live.
    #[inline]
    pub(crate) fn deletes(&self) -> bool {
        matches!(self.kind, Kind::Delete | Kind::RangeDelete)
    }

    /// The shape of its record, which plays `role` in the commit.
    #[inline]
    pub(crate) fn shape(&self, role: Role) -> Shape {
        Shape {
            kind: self.kind,
            role,
            key_len: self.stored_key().len(),
            value_len: self.stored_value().len(),
        }
    }

    /// The parts of a range deletion, one for each subrange that it reaches into.
    pub(crate) fn parts(&self, routes: &Routes) -> Vec<Op<'a>> {
        let (begin, end) = (self.stored_key(), self.stored_value());
        let reached = &routes.subranges[routes.position(begin)..];
        let reached = reached.iter().take_while(|each| begin == end || &each.span.lower[..] < end);
        let part = |subrange: &Arc<Subrange>| {
            let begin = begin.max(&subrange.span.lower).to_vec();
            let end = subrange.span.before().map_or(end, |upper| end.min(upper)).to_vec();
            Op { stored: Stored::Part(Box::new((begin, end))), ..self.clone() }
        };
        // One that is empty has no more than its place.
        reached.take(if begin == end { 1 } else { usize::MAX }).map(part).collect()
    }
}

/// The changes of a commit: on the caller's stack, or owned by a commit that outlives its caller.
pub(crate) enum Ops<'a> {
    Borrowed(&'a mut [Op<'a>]),
    Owned(Vec<Op<'a>>),
}

impl<'a> std::ops::Deref for Ops<'a> {
    type Target = [Op<'a>];

    #[inline]
    fn deref(&self) -> &[Op<'a>] {
        match self {
            Ops::Borrowed(ops) => ops,
            Ops::Owned(ops) => ops,
        }
    }
}

impl std::ops::DerefMut for Ops<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Ops::Borrowed(ops) => ops,
            Ops::Owned(ops) => ops,
        }
    }
}

/// What these changes may claim by themselves.
#[inline]
pub(crate) fn claim_of(ops: &[Op<'_>]) -> Claim {
    if ops.iter().all(Op::deletes) { Claim::Delete } else { Claim::Put }
}

/// Refuses keys, values and ranges that no commit takes, and operands of more than `operand_max` bytes.
#[inline]
pub(crate) fn check_limits(op: &Op<'_>, operand_max: u64) -> Result<()> {
    if op.kind == Kind::RangeDelete && op.value.len() > KEY_BYTES_MAX {
        let text = format!("a range end of {} bytes; at most {KEY_BYTES_MAX}", op.value.len());
        return Err(Error::new(ErrorKind::LimitExceeded, "write", text));
    }
    if op.kind == Kind::RangeDelete {
        check_range(op.key, op.value, "write")?;
    }
    if op.key.len() > KEY_BYTES_MAX || op.stored_value().len() > VALUE_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            "write",
            format!(
                "key of {} and value of {} bytes; at most {KEY_BYTES_MAX} and {VALUE_BYTES_MAX}",
                op.key.len(),
                op.stored_value().len()
            ),
        ));
    }
    if op.kind == Kind::Merge && op.value.len() as u64 > operand_max {
        return Err(operand_too_long(op, operand_max));
    }
    Ok(())
}

/// Refuses what no commit takes in zones of `zone_len` bytes, whatever room there is.
pub(crate) fn check_fits(op: &Op<'_>, zone_len: u64) -> Result<()> {
    let (value, value_max) = (op.stored_value().len() as u64, zone_len / 8);
    check_limits(op, value_max)?;
    // A longer value has a place of its own.
    let value = if op.kind == Kind::RangeDelete { value } else { value.min(value_max) };
    let len = op.key.len() as u64 + value + RECORD_HEAD_MAX;
    if len > zone_len {
        let text =
            format!("a record of {len} bytes; at most {zone_len} fit a zone: shorten its key");
        return Err(Error::new(ErrorKind::LimitExceeded, "write", text));
    }
    Ok(())
}

/// Bytes of a record beside key and value, at most.
const RECORD_HEAD_MAX: u64 = 128;

/// Refuses a range that ends before it begins.
pub(crate) fn check_range(begin: &[u8], end: &[u8], operation: &'static str) -> Result<()> {
    if begin <= end {
        return Ok(());
    }
    let text = "a range that ends before it begins; exchange its ends";
    Err(Error::new(ErrorKind::InvalidArgument, operation, text))
}

#[cold]
fn operand_too_long(op: &Op<'_>, most: u64) -> Error {
    let text = format!("an operand of {} bytes; at most {most}: split it", op.value.len());
    Error::new(ErrorKind::LimitExceeded, "merge", text)
}
