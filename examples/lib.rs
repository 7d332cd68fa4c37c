//! Example programs of Transpute.
