//! Panics that end where they are caught: of code of the application, and of background steps.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use base::{Error, ErrorKind};

/// Calls `call`; a panic in it comes back as its message.
///
/// No type proves that what `call` may change is whole after a panic, so each caller says why it is, or lets a guard
/// poison the store where it is not ([`crate::poison`]).
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(message)
}

/// The error of a background step that panicked: what it was at is given up and done again.
#[cold]
pub(crate) fn panicked(step: &'static str, said: &str) -> Error {
    let text =
        format!("a background step panicked, and is done again later; please report this: {said}");
    Error::new(ErrorKind::Internal, step, text)
}

/// What a panic said.
fn message(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast_ref::<&str>() {
            Some(text) => (*text).to_owned(),
            None => {
                // Of a type of the application's: dropping it might panic again.
                std::mem::forget(payload);
                "no message".to_owned()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_back_as_what_it_said() {
        struct Mine;
        impl Drop for Mine {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert_eq!(caught(|| 7), Ok(7));
        assert_eq!(caught(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert_eq!(caught(|| panic!("of {}", 2)), Err::<(), _>("of 2".to_owned()));
        let mine = caught(|| std::panic::panic_any(Mine));
        assert_eq!(mine, Err::<(), _>("no message".to_owned()));
    }
}
