//! Calls of the JavaScript host, which provides random bytes and receives the results of the party.

/// Functions that the JavaScript host (`run.mjs`) passes to the module as imports.
mod import {
    #[link(wasm_import_module = "host")]
    unsafe extern "C" {
        pub(super) fn random(bytes: *mut u8, len: usize);
        pub(super) fn send(bytes: *const u8, len: usize);
        pub(super) fn output(text: *const u8, len: usize);
        pub(super) fn fail(text: *const u8, len: usize);
    }
}

/// Fills memory with random bytes. getrandom calls this function if the program selects its backend
/// `custom`.
///
/// # Safety
/// `bytes` is writable for `len` bytes.
// SAFETY: getrandom requires this name and this signature, and no other crate defines the function.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    bytes: *mut u8,
    len: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: `bytes` is writable for `len` bytes, and the host writes exactly these. If the host
    // has no random bytes, its exception ends the call.
    unsafe { import::random(bytes, len) };
    Ok(())
}

/// Passes bytes for the peer to the host.
pub(crate) fn send(bytes: &[u8]) {
    // SAFETY: the host reads the bytes only during the call.
    unsafe { import::send(bytes.as_ptr(), bytes.len()) };
}

/// Passes the output of the run to the host.
pub(crate) fn output(text: &str) {
    // SAFETY: the host reads the text only during the call.
    unsafe { import::output(text.as_ptr(), text.len()) };
}

/// Makes the host throw an exception with this text.
pub(crate) fn fail(text: &str) {
    // SAFETY: the host reads the text only during the call.
    unsafe { import::fail(text.as_ptr(), text.len()) };
}
