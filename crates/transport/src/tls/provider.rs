//! The cryptography provider of TLS: *ring*, with the hybrid key agreement X25519MLKEM768 added.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

#[cfg(feature = "ml-kem")]
use super::hybrid::X25519MlKem768;

/// Returns the cryptography provider of all TLS connections. It prefers X25519MLKEM768, and falls
/// back to X25519 if the peer does not support ML-KEM.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        kx_groups: vec![
            #[cfg(feature = "ml-kem")]
            &X25519MlKem768,
            ring::kx_group::X25519,
        ],
        ..ring::default_provider()
    })
}
