//! An allocator that counts the allocated bytes.

use std::alloc::System;

use cap::Cap;

/// The system's allocator with a counter, for the peak that `transpute run --json` reports. It sets
/// no limit.
#[global_allocator]
pub(crate) static HEAP: Cap<System> = Cap::new(System, usize::MAX);
