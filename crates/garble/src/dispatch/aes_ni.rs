//! The compiled jobs of the back end with AES instructions.

use super::Job;
use crate::engine::{AesNi, Wide};

#[target_feature(enable = "aes,ssse3")]
pub(super) fn run(isa: AesNi, job: impl Job) {
    job.run(
        Wide::<_, 8>(isa),
        Wide::<_, 4>(isa),
        Wide::<_, 2>(isa),
        Wide(isa),
    );
}
