//! The AES back ends.

use std::fmt;

/// An implementation of the AES-based gate kernels. All back ends produce the same bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Backend {
    /// Any CPU, through the `aes` crate.
    Portable,
    /// ARM64 with the AES instructions of ARMv8: one block per instruction.
    ArmAes,
    /// x86-64 with AES-NI and SSSE3: one block per instruction.
    AesNi,
    /// x86-64 with vector AES and AVX2: two blocks per instruction.
    Vaes256,
    /// x86-64 with vector AES and AVX-512: four blocks per instruction.
    Vaes512,
}

impl Backend {
    /// All back ends, slowest first.
    pub const ALL: [Self; 5] = [
        Self::Portable,
        Self::ArmAes,
        Self::AesNi,
        Self::Vaes256,
        Self::Vaes512,
    ];

    /// Name of the environment variable that [`Backend::best`] reads.
    pub const VARIABLE: &'static str = "TRANSPUTE_AES";

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::ArmAes => "arm-aes",
            Self::AesNi => "aes-ni",
            Self::Vaes256 => "vaes256",
            Self::Vaes512 => "vaes512",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
