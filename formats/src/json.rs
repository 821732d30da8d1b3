//! JSON as the files use it: numbers kept as text, keys never twice, every mistake with its JSON pointer.
//!
//! `serde_json` reads decimals through floats and lets the last of two equal keys win, and a document tree of a large
//! plan would not fit into memory. So the files are read here by a pull reader straight into their typed forms, which
//! [`form!`] declares once for reading and for writing. Keys are written sorted, so the compact text is the canonical
//! one that a digest is made of.

mod reader;
mod value;
mod writer;

pub use reader::{Kind, Limits, Read, Reader, escaped};
pub use value::{Decimal, Duration, Json, Names, NodeId, Nullable, RateText, Size, Text, Version};
pub use writer::Writer;

/// Declares a struct and how it stands in JSON: `field: Type = "key"`, keys in alphabetical order.
///
/// A field of type `Option` may be absent; every other one is required.
#[macro_export]
#[doc(hidden)]
macro_rules! form {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty = $key:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl $crate::json::Json for $name {
            fn read(reader: &mut $crate::json::Reader<'_>) -> $crate::json::Read<Option<Self>> {
                const KEYS: &[&str] = &[$($key),*];
                $(let mut $field: Option<$type> = None;)*
                // A field that was there and wrong has its own message: it is not missing.
                let mut seen = [false; KEYS.len()];
                let ours = reader.object(KEYS, &mut |reader, key| {
                    if let Some(seen) = seen.get_mut(key) {
                        *seen = true;
                    }
                    let mut at = 0;
                    $(if key == at { $field = $crate::json::Json::read(reader)?; return Ok(()); } at += 1;)*
                    let _ = at;
                    Ok(())
                })?;
                if !ours { return Ok(None); }
                let mut at = 0;
                $(
                    if $field.is_none() && !seen.get(at).copied().unwrap_or(true) {
                        $field = <$type as $crate::json::Json>::absent();
                        if $field.is_none() { reader.missing($key); }
                    }
                    at += 1;
                )*
                let _ = at;
                Ok((|| Some($name { $($field: $field?),* }))())
            }
            fn write(&self, writer: &mut $crate::json::Writer<'_>) {
                writer.begin('{');
                $(if $crate::json::Json::is_present(&self.$field) {
                    writer.key($key);
                    $crate::json::Json::write(&self.$field, writer);
                })*
                writer.end('}');
            }
        }
    };
}
pub use form;

/// Declares an enum of words: `Variant = "word"`.
#[macro_export]
#[doc(hidden)]
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$variant_meta])* $variant,)* }

        impl $name {
            /// Every value, in the order of the variants.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// The word that stands for it in files.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
            /// The value with this word.
            pub fn parse(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl $crate::json::Json for $name {
            fn read(reader: &mut $crate::json::Reader<'_>) -> $crate::json::Read<Option<Self>> {
                reader.word(&[$($word),*], $name::parse)
            }
            fn write(&self, writer: &mut $crate::json::Writer<'_>) {
                writer.text(self.word());
            }
        }
    };
}
pub use words;

#[cfg(test)]
mod tests;
