//! The compiled jobs of the back end with 512-bit registers.

use super::Job;
use crate::engine::{Vaes512, Wide};

#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl,bmi2")]
pub(super) fn run(isa: Vaes512, job: impl Job) {
    job.run(
        Wide::<_, 2>(isa),
        Wide::<_, 1>(isa),
        Wide::<_, 1>(isa.pair()),
        Wide(isa.narrow()),
    );
}
