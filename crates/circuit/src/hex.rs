//! Hexadecimal text.

/// Returns bytes as lower-case hexadecimal digits, the format in which digests of circuits are
/// printed.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
