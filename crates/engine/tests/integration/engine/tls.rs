//! Certificates for a server under test, and clients that trust them.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::generate_simple_self_signed;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, RootCertStore, ServerConfig,
    SignatureScheme, StreamOwned, SupportedCipherSuite, SupportedProtocolVersion, version,
};

use sojourn_testing::client;

pub type Stream = StreamOwned<ClientConnection, TcpStream>;
pub type Client = client::Client<Stream>;

pub const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

/// A certificate for `localhost` and its key, in files.
pub struct Identity {
    directory: tempfile::TempDir,
}

impl Identity {
    pub fn new() -> Identity {
        let identity = Identity { directory: tempfile::tempdir().unwrap() };
        identity.renew("localhost");
        identity
    }

    pub fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    /// Replaces the files by a new certificate for `name` and its key.
    pub fn renew(&self, name: &str) {
        let pair = generate_simple_self_signed([name.to_owned()]).unwrap();
        replace(&self.key(), &pair.signing_key.serialize_pem());
        replace(&self.certificate(), &pair.cert.pem());
    }

    /// The flags for a TLS listener with this certificate.
    pub fn flags(&self) -> [&'static str; 6] {
        let leak = |path: PathBuf| &*path.into_os_string().into_string().unwrap().leak();
        let (certificate, key) = (leak(self.certificate()), leak(self.key()));
        ["--tls-listen", "127.0.0.1:0", "--tls-certificate", certificate, "--tls-key", key]
    }

    /// A client configuration that trusts the current certificate.
    pub fn trusted(&self) -> Arc<ClientConfig> {
        Arc::new(self.trusted_in(&VERSIONS))
    }

    /// The same, restricted to `versions`.
    pub fn trusted_in(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        self.trusted_by(default_provider(), versions)
    }

    /// The same, with the cipher suites whose names contain one of `ciphers`, in this order.
    pub fn trusted_with(&self, version: &'static SupportedProtocolVersion, ciphers: &[&str]) -> ClientConfig {
        let mut provider = default_provider();
        let all = std::mem::take(&mut provider.cipher_suites);
        for cipher in ciphers {
            let named = |suite: &&SupportedCipherSuite| format!("{:?}", suite.suite()).contains(cipher);
            provider.cipher_suites.extend(all.iter().filter(named));
        }
        self.trusted_by(provider, &[version])
    }

    fn trusted_by(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.der()).unwrap();
        ClientConfig::builder_with_provider(provider.into())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// For a server that the test itself plays.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        let key = PrivateKeyDer::from_pem_file(self.key()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.der()], key)
            .unwrap();
        Arc::new(config)
    }

    /// The current certificate.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.certificate()).unwrap()
    }
}

fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// Connects to the server at `address` under the name `localhost`.
pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Client {
    connect_to(address, config, "localhost")
}

/// Connects with `name` as the requested name.
pub fn connect_to(address: SocketAddr, config: &Arc<ClientConfig>, name: &'static str) -> Client {
    let session = ClientConnection::new(Arc::clone(config), ServerName::try_from(name).unwrap()).unwrap();
    Client::over(StreamOwned::new(session, client::with_deadline(TcpStream::connect(address).unwrap())))
}

/// The complete response to a GET on its own connection, and the kind of handshake.
pub fn get(address: SocketAddr, config: &Arc<ClientConfig>, path: &str) -> (Vec<u8>, HandshakeKind) {
    let mut client = connect(address, config);
    client.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes());
    let answer = client.rest();
    (answer, client.stream.conn.handshake_kind().expect("a handshake"))
}

/// A client configuration that trusts any certificate and resumes no session.
pub fn trusting_all() -> Arc<ClientConfig> {
    let provider = Arc::new(default_provider());
    let verifier = Arc::new(TrustAll(Arc::clone(&provider)));
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&VERSIONS).unwrap();
    Arc::new(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The certificate that the server at `address` presents for `name`.
pub fn presented(address: SocketAddr, name: &'static str) -> CertificateDer<'static> {
    let mut client = connect_to(address, &trusting_all(), name);
    client.send(b"GET /hello.txt HTTP/1.0\r\n\r\n");
    client.rest();
    client.stream.conn.peer_certificates().expect("a handshake")[0].clone().into_owned()
}

#[derive(Debug)]
struct TrustAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
