//! TLS for https: trust, session resumption, and the expected name of the server's certificate.
//!
//! One configuration serves all connections of a run, so a later connection resumes the session of an earlier one. The
//! state of a single connection is in `tls_stream`.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use thiserror::Error as ThisError;

use crate::http::{cause::Cause, target::Target};

/// The protocols that ALPN offers: one of them, as a run speaks one.
const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";
/// How many servers' sessions are kept for resumption; a run has one server.
const SERVERS_REMEMBERED: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates signed by the system's authorities.
    System,
    /// Certificates signed by, or contained in, this file.
    File(PathBuf),
    Anything,
}

/// The TLS configuration for one server.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

#[derive(Debug, ThisError)]
pub enum TlsError {
    /// No certificate can be issued for the URL's host.
    #[error(
        "{0:?} is not a name that a certificate can cover\nhint: use a host name, or an address without brackets"
    )]
    Name(String),
    #[error(
        "no CA certificates in {from}: {why}\nhint: pass the server's certificate or its CA's with --cacert FILE"
    )]
    Authorities {
        /// Where authorities were looked for.
        from: String,
        why: String,
    },
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] Error),
}

impl Tls {
    /// TLS for the target's server; without `resumes`, every connection makes a full handshake.
    pub fn new(target: &Target, trust: &Trust, resumes: bool) -> Result<Tls, TlsError> {
        let name = target.host_name();
        let name = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        let remembered = if resumes { SERVERS_REMEMBERED } else { 0 };
        Ok(Tls { config: Arc::new(client_config(trust, remembered)?), name })
    }

    /// Offers HTTP/2 alone.
    pub fn offer_http2(&mut self) {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![HTTP2.to_vec()];
    }

    /// The client's session for a new connection.
    pub(crate) fn session(&self) -> Result<ClientConnection, Cause> {
        let session = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut session = session.map_err(|error| cause(&error))?;
        // The request is already in memory; a limit would only split it.
        session.set_buffer_limit(None);
        Ok(session)
    }
}

/// The configuration of HTTP/1 over TLS with the certificates that `trust` accepts; keeps sessions of `remembered`
/// servers.
pub fn client_config(trust: &Trust, remembered: usize) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let mut config = match authorities(trust)? {
        Some(roots) => builder.with_root_certificates(roots).with_no_client_auth(),
        None => {
            let any = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(any).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![HTTP1.to_vec()];
    config.resumption = match remembered {
        0 => Resumption::disabled(),
        servers => Resumption::in_memory_sessions(servers),
    };
    Ok(config)
}

pub(crate) fn cause(error: &Error) -> Cause {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer, UnsupportedSignatureAlgorithmForPublicKeyContext,
    };
    match error {
        Error::InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
        ) => Cause::CertificateExpired,
        Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => Cause::CertificateName,
        // A wrong signature comes from another authority with a trusted one's name.
        Error::InvalidCertificate(
            UnknownIssuer | BadSignature | UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => Cause::CertificateUntrusted,
        Error::InvalidCertificate(_) => Cause::CertificateInvalid,
        _ => Cause::TlsFailed,
    }
}

/// `None` accepts any certificate.
fn authorities(trust: &Trust) -> Result<Option<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    let failed = |from: &str, why: String| TlsError::Authorities { from: from.to_owned(), why };
    let from = match trust {
        Trust::Anything => return Ok(None),
        Trust::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            "the system's store".to_owned()
        }
        Trust::File(path) => {
            let from = path.display().to_string();
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| failed(&from, error.to_string()))?;
            for certificate in certificates {
                let added = certificate.map_err(|error| error.to_string());
                let added = added.and_then(|good| roots.add(good).map_err(|error| error.to_string()));
                added.map_err(|why| failed(&from, why))?;
            }
            from
        }
    };
    if roots.is_empty() {
        Err(failed(&from, "it contains no certificate".to_owned()))
    } else {
        Ok(Some(roots))
    }
}

/// Accepts any certificate; the server must still prove that it has the key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
