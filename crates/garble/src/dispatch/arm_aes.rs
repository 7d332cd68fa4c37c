//! The compiled jobs of the back end with the AES instructions of ARM64.

use super::Job;
use crate::engine::{ArmAes, Wide};

#[target_feature(enable = "neon,aes")]
pub(super) fn run(isa: ArmAes, job: impl Job) {
    job.run(
        Wide::<_, 8>(isa),
        Wide::<_, 4>(isa),
        Wide::<_, 2>(isa),
        Wide(isa),
    );
}
