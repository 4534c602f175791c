//! Which cipher suite is chosen: the server's preference, except for clients that prefer ChaCha20.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite::{
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};

/// The suites, the preferred ones first. Common processors have instructions for SHA-256 and none for SHA-384, by which the
/// keys of a session with AES-256 are derived: a dozen hashes and more in each handshake.
pub(super) static SUITES: [SupportedCipherSuite; 9] = [
    TLS13_AES_128_GCM_SHA256,
    TLS13_AES_256_GCM_SHA384,
    TLS13_CHACHA20_POLY1305_SHA256,
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// The record type and the message type with which a ClientHello begins (RFC 8446, 5.1 and 4).
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

/// The headers of record and message.
const HEADERS_BYTES: usize = 5 + 4;

/// Version and random number, before the session ID (RFC 8446, 4.1.2).
const VERSION_AND_RANDOM_BYTES: usize = 2 + 32;

/// Returns true if the ClientHello at the start of `received` lists a suite with ChaCha20 first: a client without instructions
/// for AES, for which AES is slow. One that does not arrive in one piece does not count.
pub(crate) fn prefers_chacha20(received: &[u8]) -> bool {
    first_suite(received).is_some_and(|suite| {
        // ChaCha20-Poly1305 in TLS 1.3 (RFC 8446, B.4) and with ECDHE in TLS 1.2 (RFC 7905, 2).
        matches!(suite, [0x13, 0x03] | [0xcc, 0xa8 | 0xa9])
    })
}

fn first_suite(received: &[u8]) -> Option<[u8; 2]> {
    if received.first() != Some(&HANDSHAKE) || received.get(5) != Some(&CLIENT_HELLO) {
        return None;
    }
    let (id_length, rest) = received.get(HEADERS_BYTES + VERSION_AND_RANDOM_BYTES..)?.split_first()?;
    let (suites_bytes, suites) = rest.get(usize::from(*id_length)..)?.split_first_chunk()?;
    let count = usize::from(u16::from_be_bytes(*suites_bytes)) / 2;
    let mut suites = suites.chunks_exact(2).take(count).map(|suite| [suite[0], suite[1]]);
    suites.find(|suite| !is_reserved(*suite))
}

/// A value that clients send so that servers ignore unknown ones (GREASE, RFC 8701, 2).
fn is_reserved([high, low]: [u8; 2]) -> bool {
    high == low && low & 0x0f == 0x0a
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::crypto::CryptoProvider;
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    fn hello(suites: &[SupportedCipherSuite]) -> Vec<u8> {
        let provider = CryptoProvider { cipher_suites: suites.to_vec(), ..default_provider() };
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut bytes = Vec::new();
        ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_first_suite_tells() {
        let [aes, _, chacha, _, _, older_chacha, ..] = SUITES;
        assert!(
            !prefers_chacha20(&hello(&SUITES)) && !prefers_chacha20(&hello(&[aes, chacha, older_chacha]))
        );
        assert!(prefers_chacha20(&hello(&[chacha, aes, older_chacha])));
        assert!(prefers_chacha20(&hello(&[older_chacha, chacha, aes])));
    }

    #[test]
    fn reserved_values_are_skipped_and_parts_tell_nothing() {
        let [aes, _, chacha, ..] = SUITES;
        let whole = hello(&[chacha, aes, SUITES[3]]);
        let list = HEADERS_BYTES + VERSION_AND_RANDOM_BYTES + 1 + 32;
        assert_eq!(whole[list + 2..list + 4], [0x13, 0x03]);
        let mut reserved = whole.clone();
        // Of all lengths only that of the list is read.
        reserved[list + 1] += 2;
        reserved.splice(list + 2..list + 2, [0xda, 0xda]);
        assert!(prefers_chacha20(&reserved));
        for end in 0..list + 4 {
            assert!(!prefers_chacha20(&whole[..end]), "{end}");
        }
        let mut other = whole;
        other[5] = 2;
        assert!(!prefers_chacha20(&other));
    }
}
