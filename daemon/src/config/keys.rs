//! What a key of `sluiced.toml` is, and how the tables of [`super::settings`] become structs and lists of keys.
//!
//! Reading, reloading, the commented defaults and the tests all walk these lists.

use sluice_formats::document::Value;

use super::value::{Refusal, Rule};

/// One key of a table of settings `T`.
pub struct Key<T: 'static> {
    /// Dotted path from the root of the table.
    pub path: &'static str,
    /// The unit; empty: none.
    pub unit: &'static str,
    pub rule: Rule,
    pub kind: &'static str,
    pub restart: bool,
    pub meaning: &'static str,
    /// Reads a value into the settings.
    pub set: fn(&mut T, &Value, &Rule) -> Result<(), Refusal>,
    /// The present value as TOML; empty: not set.
    pub get: fn(&T) -> String,
    /// Takes the value that other settings have.
    pub keep: fn(&mut T, &T),
}

macro_rules! key {
    ($owner:ident, $first:ident $(. $rest:ident)*: $type:ty, $unit:literal, $rule:expr, $restart:literal, $meaning:literal) => {
        Key {
            path: concat!(stringify!($first) $(, ".", stringify!($rest))*),
            unit: $unit,
            rule: $rule,
            kind: <$type as Setting>::TYPE,
            restart: $restart,
            meaning: $meaning,
            set: |owner: &mut $owner, value, rule| {
                owner.$first$(.$rest)* = <$type as Setting>::read(value, rule)?;
                Ok(())
            },
            get: |owner: &$owner| Setting::show(&owner.$first$(.$rest)*),
            keep: |owner: &mut $owner, other| owner.$first$(.$rest)*.clone_from(&other.$first$(.$rest)*),
        }
    };
}
macro_rules! fields {
    ($name:ident { $($field:ident: $type:ty = $default:expr $(, $meaning:literal)?;)* }) => {
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[doc = $meaning])? pub $field: $type),* }
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
    };
}
/// The keys of one entry of a table array.
macro_rules! entries {
    ($keys:ident: $name:ident { $($field:ident: $type:ty = $default:expr, $unit:literal, $rule:expr, $restart:literal, $meaning:literal;)* }) => {
        fields! { $name { $($field: $type = $default, $meaning;)* } }
        pub const $keys: &[Key<$name>] = &[$(key!($name, $field: $type, $unit, $rule, $restart, $meaning)),*];
    };
}
/// The tables of the file, each with the keys that stand above it outside any table; and all settings together.
macro_rules! settings {
    ($(
        $($root:ident: $root_type:ty = $root_default:expr, $root_unit:literal, $root_rule:expr, $root_restart:literal, $root_meaning:literal;)*
        [$table:ident: $name:ident] {
            $($field:ident: $type:ty = $default:expr, $unit:literal, $rule:expr, $restart:literal, $meaning:literal;)*
        }
    )*) => {
        $(fields! { $name { $($field: $type = $default, $meaning;)* } })*
        fields! { Config {
            $($($root: $root_type = $root_default, $root_meaning;)* $table: $name = $name::default();)*
            links: Vec<LinkEntry> = Vec::new();
            switches: Vec<SwitchEntry> = Vec::new();
        } }
        /// The keys outside table arrays.
        pub const KEYS: &[Key<Config>] = &[$(
            $(key!(Config, $root: $root_type, $root_unit, $root_rule, $root_restart, $root_meaning),)*
            $(key!(Config, $table.$field: $type, $unit, $rule, $restart, $meaning),)*
        )*];
    };
}
pub(super) use {entries, fields, key, settings};

/// Must an entry of a table array have this key?
pub fn is_required(path: &str) -> bool {
    matches!(path, "name" | "address")
}

/// Keys that are elsewhere, with the place. A key that a release had stays here for two minor versions after it.
pub const MOVED: &[(&str, &str)] = &[
    ("peer.tls", "hosts and switches are spoken to by one identity: write ca, cert and key under [tls]"),
    ("switches.tls", "hosts and switches are spoken to by one identity: write ca, cert and key under [tls]"),
];
