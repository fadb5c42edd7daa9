//! How a struct of settings is declared: each setting once, with its meaning and its default.

/// Declares a struct of settings: public fields, their defaults, and for each a method of its name that sets it, so that
/// settings are chained behind a default. The struct may grow without breaking its users.
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])+ $field:ident: $kind:ty = $default:expr,)+
        }
    ) => {
        $(#[$about])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $kind,)+
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)+ }
            }
        }

        impl $name {
            $($(#[doc = $doc])+
            #[must_use]
            pub fn $field(mut self, $field: $kind) -> $name {
                self.$field = $field;
                self
            })+
        }
    };
}

pub(crate) use settings;
