//! The progress page between processes: hostile pages, writers in C and in Python.

mod c_api;
mod directories;
mod hostile;
mod pages;
mod python;
mod support;
