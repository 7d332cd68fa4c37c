//! An allocator that counts the allocated bytes.

use std::alloc::System;

use cap::Cap;

/// The system's allocator with a counter of allocated bytes. `transpute run --json` and `transpute
/// serve --json` report the peak. Only the process that compiles a Garble source sets a limit.
#[global_allocator]
pub(crate) static HEAP: Cap<System> = Cap::new(System, usize::MAX);
