//! Rows as bytes: numbers in as few bytes as they take, text behind its length.

/// What a row is made of, and a row itself.
pub(super) trait Field: Sized {
    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);

    /// Takes it off the front; `None` if there is something else.
    fn read(from: &mut &[u8]) -> Option<Self>;
}

/// The bytes of a row.
pub(super) fn encoded(row: &impl Field) -> Vec<u8> {
    let mut out = Vec::new();
    row.write(&mut out);
    out
}

/// The row that all of `bytes` are.
pub(super) fn decoded<R: Field>(mut bytes: &[u8]) -> Option<R> {
    let row = R::read(&mut bytes)?;
    bytes.is_empty().then_some(row)
}

/// Seven bits a byte, the lowest first; all but the last have the highest bit set.
impl Field for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn read(from: &mut &[u8]) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = Field::read(from)?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << shift;
            if shifted >> shift != bits {
                return None;
            }
            number |= shifted;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

impl Field for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        u64::from(*self).write(out);
    }

    fn read(from: &mut &[u8]) -> Option<u32> {
        u64::read(from)?.try_into().ok()
    }
}

impl Field for u8 {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn read(from: &mut &[u8]) -> Option<u8> {
        <[u8; 1]>::read(from).map(|[byte]| byte)
    }
}

/// The sign goes last, so that numbers near 0 are short on both sides.
impl Field for i64 {
    fn write(&self, out: &mut Vec<u8>) {
        ((self << 1) ^ (self >> 63)).cast_unsigned().write(out);
    }

    fn read(from: &mut &[u8]) -> Option<i64> {
        let folded = u64::read(from)?;
        Some((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }
}

impl Field for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(from: &mut &[u8]) -> Option<bool> {
        match u8::read(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Bytes whose number is known.
impl<const N: usize> Field for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read(from: &mut &[u8]) -> Option<[u8; N]> {
        let (head, rest) = from.split_first_chunk::<N>()?;
        *from = rest;
        Some(*head)
    }
}

impl Field for String {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<String> {
        let len = usize::try_from(u64::read(from)?).ok()?;
        let (head, rest) = from.split_at_checked(len)?;
        *from = rest;
        std::str::from_utf8(head).ok().map(Into::into)
    }
}

impl<T: Field> Field for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(field) = self {
            field.write(out);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Option<T>> {
        match bool::read(from)? {
            true => T::read(from).map(Some),
            false => Some(None),
        }
    }
}

/// The row of a table whose keys say everything.
impl Field for () {
    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &mut &[u8]) -> Option<()> {
        Some(())
    }
}

/// A struct that is written field by field.
macro_rules! row {
    ($(#[$about:meta])* $vis:vis $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        $vis struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $crate::tpcc::codec::Field for $name {
            fn write(&self, out: &mut Vec<u8>) {
                $($crate::tpcc::codec::Field::write(&self.$field, out);)*
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: $crate::tpcc::codec::Field::read(from)?,)* })
            }
        }
    };
}
pub(super) use row;

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn comes_back<T: Field + PartialEq + Debug>(field: T, len: usize) {
        let bytes = encoded(&field);
        assert_eq!(bytes.len(), len, "{field:?}");
        assert_eq!(decoded::<T>(&bytes).as_ref(), Some(&field));
        for cut in 0..len {
            assert_eq!(decoded::<T>(&bytes[..cut]), None, "{field:?} cut to {cut}");
        }
        assert_eq!(decoded::<T>(&[&bytes[..], &[0]].concat()), None, "{field:?} and more");
    }

    #[test]
    fn fields_come_back_and_cut_ones_do_not() {
        for (number, len) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)]
        {
            comes_back(number, len);
        }
        for (number, len) in [(0, 1), (-1, 1), (-64, 1), (64, 2), (i64::MIN, 10), (i64::MAX, 10)] {
            comes_back(number, len);
        }
        comes_back(u32::MAX, 5);
        comes_back(*b"four", 4);
        comes_back("häuser".to_string(), 8);
        comes_back(Some(300_u32), 3);
        comes_back(None::<u32>, 1);
        comes_back((), 0);
        row! { pub(crate) Mixed2 { flag: bool, text: String, number: i64, } }
        comes_back(Mixed2 { flag: true, text: String::new(), number: -1 }, 3);
    }

    #[test]
    fn what_is_no_field_is_refused() {
        assert_eq!(decoded::<u64>(&[0xff; 10]), None, "more than 64 bits");
        assert_eq!(decoded::<u32>(&encoded(&(1_u64 << 32))), None);
        assert_eq!(decoded::<bool>(&[2]), None);
        assert_eq!(decoded::<String>(&[1, 0xff]), None);
        assert_eq!(decoded::<String>(&encoded(&u64::MAX)), None);
    }
}
