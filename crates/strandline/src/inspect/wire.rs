//! Figures as JSON and back. One list of fields serves both ways, so that they agree.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use base::Seq;
use serde_json::Value;

/// JSON as it is written, up to a limit.
pub(super) struct Sink {
    text: String,
    limit: usize,
}

impl Sink {
    pub(super) fn new(limit: usize) -> Sink {
        Sink { text: String::new(), limit }
    }

    /// More was written than may be: what follows is left out, and all of it is of no use.
    pub(super) fn is_over(&self) -> bool {
        self.text.len() > self.limit
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn string(&mut self, text: &str) {
        // As a value of JSON it is quoted and escaped.
        let _into_memory = write!(self.text, "{}", Value::from(text));
    }

    /// Begins a member of an object.
    pub(super) fn member(&mut self, name: &str) {
        if !self.text.ends_with('{') {
            self.text.push(',');
        }
        self.string(name);
        self.text.push(':');
    }
}

/// What goes over the socket.
pub(super) trait Wire: Sized {
    fn put(&self, out: &mut Sink);
    /// `None` if `value` is none of these.
    fn take(value: &Value) -> Option<Self>;

    /// Several of them; bytes have a form of their own.
    fn put_all(all: &[Self], out: &mut Sink) {
        out.raw("[");
        for (at, each) in all.iter().enumerate() {
            if out.is_over() {
                return;
            }
            if at > 0 {
                out.raw(",");
            }
            each.put(out);
        }
        out.raw("]");
    }

    fn take_all(value: &Value) -> Option<Vec<Self>> {
        value.as_array()?.iter().map(Self::take).collect()
    }
}

/// The fields of structs, which are written and read by their names.
macro_rules! wire {
    ($($type:ty { $($field:ident),+ $(,)? })+) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Sink) {
                out.raw("{");
                $(out.member(stringify!($field)); self.$field.put(out);)+
                out.raw("}");
            }

            fn take(value: &Value) -> Option<Self> {
                Some(Self { $($field: Wire::take(value.get(stringify!($field))?)?,)+ })
            }
        }
    )+};
}
pub(super) use wire;

/// The same for structs of other crates that may get more fields: those not named keep their defaults.
macro_rules! wire_open {
    ($($type:ty { $($field:ident),+ $(,)? })+) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Sink) {
                out.raw("{");
                $(out.member(stringify!($field)); self.$field.put(out);)+
                out.raw("}");
            }

            fn take(value: &Value) -> Option<Self> {
                let mut all = Self::default();
                $(all.$field = Wire::take(value.get(stringify!($field))?)?;)+
                Some(all)
            }
        }
    )+};
}
pub(super) use wire_open;

macro_rules! whole_numbers {
    ($($type:ty),+) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Sink) {
                let _into_memory = write!(out.text, "{self}");
            }

            fn take(value: &Value) -> Option<Self> {
                value.as_u64()?.try_into().ok()
            }
        }
    )+};
}
whole_numbers!(u32, u64, usize);

impl Wire for Seq {
    fn put(&self, out: &mut Sink) {
        self.get().put(out);
    }

    fn take(value: &Value) -> Option<Seq> {
        value.as_u64().map(Seq::new)
    }
}

impl Wire for i32 {
    fn put(&self, out: &mut Sink) {
        let _into_memory = write!(out.text, "{self}");
    }

    fn take(value: &Value) -> Option<Self> {
        value.as_i64()?.try_into().ok()
    }
}

impl Wire for f64 {
    fn put(&self, out: &mut Sink) {
        let _into_memory = write!(out.text, "{}", Value::from(*self));
    }

    fn take(value: &Value) -> Option<Self> {
        value.as_f64()
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Sink) {
        out.raw(if *self { "true" } else { "false" });
    }

    fn take(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Wire for String {
    fn put(&self, out: &mut Sink) {
        out.string(self);
    }

    fn take(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

/// One byte by itself is a number; several are a string, or hexadecimal digits where they are no UTF-8.
impl Wire for u8 {
    fn put(&self, out: &mut Sink) {
        u32::from(*self).put(out);
    }

    fn take(value: &Value) -> Option<Self> {
        u32::take(value)?.try_into().ok()
    }

    fn put_all(all: &[u8], out: &mut Sink) {
        match std::str::from_utf8(all) {
            Ok(text) => out.string(text),
            Err(_) => {
                out.raw("{\"hex\":\"");
                for byte in all {
                    let _into_memory = write!(out.text, "{byte:02x}");
                }
                out.raw("\"}");
            }
        }
    }

    fn take_all(value: &Value) -> Option<Vec<u8>> {
        if let Some(text) = value.as_str() {
            return Some(text.as_bytes().to_vec());
        }
        let digits = value.get("hex")?.as_str()?.as_bytes();
        let nibble = |digit: u8| char::from(digit).to_digit(16);
        let byte = |pair: &[u8]| Some((nibble(pair[0])? << 4 | nibble(pair[1])?) as u8);
        let is_even = digits.len().is_multiple_of(2);
        is_even.then(|| digits.chunks_exact(2).map(byte).collect())?
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Sink) {
        T::put_all(self, out);
    }

    fn take(value: &Value) -> Option<Self> {
        T::take_all(value)
    }
}

impl<const N: usize> Wire for [u64; N] {
    fn put(&self, out: &mut Sink) {
        u64::put_all(self, out);
    }

    fn take(value: &Value) -> Option<Self> {
        u64::take_all(value)?.try_into().ok()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Sink) {
        match self {
            Some(value) => value.put(out),
            None => out.raw("null"),
        }
    }

    fn take(value: &Value) -> Option<Self> {
        if value.is_null() { Some(None) } else { T::take(value).map(Some) }
    }
}

/// Nanoseconds.
impl Wire for Duration {
    fn put(&self, out: &mut Sink) {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).put(out);
    }

    fn take(value: &Value) -> Option<Self> {
        u64::take(value).map(Duration::from_nanos)
    }
}

impl Wire for PathBuf {
    fn put(&self, out: &mut Sink) {
        u8::put_all(self.as_os_str().as_encoded_bytes(), out);
    }

    fn take(value: &Value) -> Option<Self> {
        use std::os::unix::ffi::OsStringExt;
        Some(std::ffi::OsString::from_vec(u8::take_all(value)?).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Wire>(value: &T) -> Option<T> {
        let mut out = Sink::new(usize::MAX);
        value.put(&mut out);
        let text = out.into_text();
        T::take(&serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes: Vec<u8> = (0..=255).collect();
        for key in [&b""[..], b"a\"b\\\n", &bytes, "grün".as_bytes()] {
            assert_eq!(there_and_back(&key.to_vec()).as_deref(), Some(key));
        }
        assert_eq!(there_and_back(&u64::MAX), Some(u64::MAX));
        assert_eq!(there_and_back(&vec![Some(0.25), None]), Some(vec![Some(0.25), None]));
        assert_eq!(there_and_back(&[1_u64, 2]), Some([1, 2]));
        let time = Duration::from_nanos(12_345_678_901);
        assert_eq!(there_and_back(&time), Some(time));
    }

    #[test]
    fn what_is_none_of_these_is_refused() {
        let refused = |text: &str| Vec::<u8>::take(&serde_json::from_str(text).expect(text));
        for text in ["1", "{}", "{\"hex\":\"1\"}", "{\"hex\":\"zz\"}", "[1]"] {
            assert_eq!(refused(text), None, "{text}");
        }
        assert_eq!(u32::take(&Value::from(1_u64 << 32)), None);
        assert_eq!(<[u64; 2]>::take(&Value::from(vec![1])), None);
    }

    #[test]
    fn what_is_too_long_is_cut_off_soon() {
        let mut out = Sink::new(100);
        vec![1_u64; 1_000_000].put(&mut out);
        assert!(out.is_over() && out.into_text().len() < 200);
    }
}
