//! Conversion of bytes to hexadecimal text.

/// Returns bytes as lower-case hexadecimal digits, which is how digests of programs are printed.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
