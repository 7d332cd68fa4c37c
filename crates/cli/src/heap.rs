//! The allocator, which counts what it allocates.

use std::alloc::System;

use cap::Cap;

/// The system's allocator, counted for the peak that `transpute run --json` reports. It has no limit.
#[global_allocator]
pub(crate) static HEAP: Cap<System> = Cap::new(System, usize::MAX);
