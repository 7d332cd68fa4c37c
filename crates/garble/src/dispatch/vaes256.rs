//! The compiled jobs of the back end with 256-bit registers.

use super::Job;
use crate::engine::{Vaes256, Wide};

#[target_feature(enable = "aes,vaes,avx2")]
pub(super) fn run(isa: Vaes256, job: impl Job) {
    job.run(
        Wide::<_, 4>(isa),
        Wide::<_, 2>(isa),
        Wide::<_, 1>(isa),
        Wide(isa.narrow()),
    );
}
