//! `transpute` command.
fn main() {}
