//! The cryptography of TLS: *ring*, with the hybrid key agreement X25519MLKEM768 added.

use std::sync::{Arc, OnceLock};

use rustls::crypto::{CryptoProvider, ring};

#[cfg(feature = "ml-kem")]
use super::hybrid::X25519MlKem768;

/// Returns the cryptography of all TLS connections.
///
/// X25519MLKEM768 is preferred. X25519 is accepted from peers without ML-KEM.
pub(super) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || {
        let mut provider = ring::default_provider();
        provider.kx_groups = vec![
            #[cfg(feature = "ml-kem")]
            &X25519MlKem768,
            ring::kx_group::X25519,
        ];
        Arc::new(provider)
    };
    Arc::clone(PROVIDER.get_or_init(make))
}
