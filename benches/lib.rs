//! Criterion benchmarks of Transpute.
