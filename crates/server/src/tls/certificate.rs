//! A certificate chain and its private key, read from PEM files and checked against each other.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The largest accepted PEM file.
const PEM_BYTES_MAX: u64 = 256 * 1024;

/// The most certificates of a server.
pub const CERTIFICATES_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its private key in PEM: PKCS #8, PKCS #1 or SEC1.
    pub key: PathBuf,
    /// The authority's answer whether it is revoked, in DER (RFC 6960, 4.2), which is sent with it.
    pub ocsp: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// More than [`CERTIFICATES_MAX`].
    #[error("{0} certificates are too many")]
    TooMany(usize),
    #[error("cannot read the {what} {}: {error}", path.display())]
    Read { what: &'static str, path: PathBuf, error: io::Error },
    /// Not a PEM file, or a damaged one.
    #[error("the {what} {} is not a PEM file: {reason}", path.display())]
    Pem { what: &'static str, path: PathBuf, reason: String },
    /// The file contains nothing of this kind.
    #[error("{} contains no {what}", path.display())]
    Empty { what: &'static str, path: PathBuf },
    /// The certificate is unusable.
    #[error("the certificate {} cannot be used: {reason}", path.display())]
    Certificate { path: PathBuf, reason: String },
    /// The key is unusable.
    #[error("the key {} cannot be used: {reason}", path.display())]
    Key { path: PathBuf, reason: String },
    #[error("{} is not a usable OCSP response: {reason}", path.display())]
    Ocsp { path: PathBuf, reason: &'static str },
    #[error("the key {} does not belong to the certificate {}", key.display(), certificate.display())]
    Mismatch { certificate: PathBuf, key: PathBuf },
}

impl CertificateError {
    pub fn hint(&self) -> &'static str {
        match self {
            CertificateError::TooMany(_) => "the maximum is 128; one certificate can cover many names",
            CertificateError::Read { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => "check the path; docs/tls.md shows how to make a certificate",
                io::ErrorKind::PermissionDenied => "the user who runs the server must be allowed to read it",
                io::ErrorKind::FileTooLarge => "give the file of one chain, not a store of certificates",
                _ => "check the path and the file system",
            },
            CertificateError::Pem { .. } => {
                "a PEM file has text between lines such as -----BEGIN CERTIFICATE-----; convert other formats with openssl"
            }
            CertificateError::Empty { what: "private key", .. } => {
                "--tls-key is for the key, --tls-certificate for the chain; a key with a passphrase must be decrypted first"
            }
            CertificateError::Empty { .. } => "--tls-certificate is for the chain, --tls-key for the key",
            CertificateError::Certificate { .. } => "look at it with: openssl x509 -noout -text -in FILE",
            CertificateError::Ocsp { .. } => {
                "get one with: openssl ocsp -issuer CHAIN -cert CERTIFICATE -url URL -respout FILE"
            }
            CertificateError::Key { .. } => {
                "use RSA with at least 2048 bits, ECDSA P-256 or P-384, or Ed25519"
            }
            CertificateError::Mismatch { .. } => {
                "give the key that the certificate was made for, and the server's own certificate first in its chain"
            }
        }
    }
}

impl CertificateFiles {
    pub(super) fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
        let CertificateFiles { certificate, key: path, ocsp } = self;
        let pem = read("key", path)?;
        let chain = self.chain()?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
            pem::Error::NoItemsFound => CertificateError::Empty { what: "private key", path: path.clone() },
            error => broken("key", path, &error),
        })?;
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|error| CertificateError::Key { path: path.clone(), reason: error.to_string() })?;
        let mut pair = CertifiedKey::new(chain, key);
        pair.ocsp = ocsp.as_deref().map(ocsp_answer).transpose()?;
        match pair.keys_match() {
            Ok(()) => Ok(pair),
            Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
                Err(CertificateError::Mismatch { certificate: certificate.clone(), key: path.clone() })
            }
            Err(error) => {
                Err(CertificateError::Certificate { path: certificate.clone(), reason: error.to_string() })
            }
        }
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        let path = &self.certificate;
        let pem = read("certificate", path)?;
        let chain = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        match chain {
            Ok(chain) if chain.is_empty() => {
                Err(CertificateError::Empty { what: "certificate", path: path.clone() })
            }
            Ok(chain) => Ok(chain),
            Err(error) => Err(broken("certificate", path, &error)),
        }
    }
}

/// An answer that the authority gave. Whether it is about this certificate, and still valid, clients check.
fn ocsp_answer(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let bytes = read("OCSP response", path)?;
    let not = |reason| Err(CertificateError::Ocsp { path: path.to_owned(), reason });
    // A sequence: its length in one byte, or in as many as the first says; then the status, an enumerated value.
    let rest = match bytes.as_slice() {
        [0x30, length @ ..=127, rest @ ..] if rest.len() == usize::from(*length) => rest,
        [0x30, count @ 129..=132, rest @ ..] => {
            let Some((length, rest)) = rest.split_at_checked(usize::from(count & 0x7f)) else {
                return not("it is truncated");
            };
            if length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)) != rest.len() {
                return not("its length field is wrong");
            }
            rest
        }
        _ => return not("it is not DER"),
    };
    match rest {
        [0x0a, 1, 0, ..] => Ok(bytes),
        [0x0a, 1, ..] => not("the responder reported an error"),
        _ => not("it is DER, but not an OCSP response"),
    }
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, CertificateError> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > PEM_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    };
    read().map_err(|error| CertificateError::Read { what, path: path.to_owned(), error })
}

fn broken(what: &'static str, path: &Path, error: &pem::Error) -> CertificateError {
    CertificateError::Pem { what, path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::generate_simple_self_signed;
    use rustls::crypto::ring::default_provider;

    /// The error for files with these contents; `None` if they are valid.
    fn said(certificate: Option<&str>, key: Option<&str>) -> Option<String> {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: Option<&str>| {
            let path = directory.path().join(name);
            content.inspect(|content| std::fs::write(&path, content).unwrap());
            path
        };
        let files =
            CertificateFiles { certificate: file("c.pem", certificate), key: file("k.pem", key), ocsp: None };
        let error = files.read(&default_provider()).err()?;
        Some(format!("{error}").replace(&format!("{}/", directory.path().display()), ""))
    }

    #[test]
    fn what_is_wrong_is_named() {
        let pair = || generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let (own, other) = (pair(), pair());
        let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
        let said = |certificate: Option<&str>, key: Option<&str>| said(certificate, key).unwrap_or_default();
        assert_eq!(said(Some(&certificate), Some(&key)), "");
        assert!(said(None, Some(&key)).starts_with("cannot read the certificate c.pem: No such file"));
        assert!(said(Some(&certificate), None).starts_with("cannot read the key k.pem: No such file"));
        assert_eq!(said(Some("hello"), Some(&key)), "c.pem contains no certificate");
        assert_eq!(said(Some(&key), Some(&key)), "c.pem contains no certificate");
        assert_eq!(said(Some(&certificate), Some(&certificate)), "k.pem contains no private key");
        assert_eq!(
            said(Some(&certificate), Some(&other.signing_key.serialize_pem())),
            "the key k.pem does not belong to the certificate c.pem"
        );
        let cut = &certificate[..certificate.len() - 20];
        assert!(said(Some(cut), Some(&key)).starts_with("the certificate c.pem is not a PEM file: "));
        let nonsense = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        assert!(said(Some(nonsense), Some(&key)).starts_with("the certificate c.pem cannot be used: "));
        let nonsense = "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n";
        assert!(said(Some(&certificate), Some(nonsense)).starts_with("the key k.pem cannot be used: "));
        let huge = "x".repeat(PEM_BYTES_MAX as usize + 1);
        assert!(
            said(Some(&huge), Some(&key)).starts_with("cannot read the certificate c.pem: file too large")
        );
    }

    #[test]
    fn only_an_answer_that_was_given_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("o.der");
        let outcome = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            ocsp_answer(&path).map_err(|error| error.to_string().rsplit(": ").next().unwrap().to_owned())
        };
        let long = [&[0x30, 0x82, 1, 0, 0x0a, 1, 0][..], &[0; 253]].concat();
        assert_eq!(outcome(&[0x30, 3, 0x0a, 1, 0]), Ok(vec![0x30, 3, 0x0a, 1, 0]));
        assert_eq!(outcome(&long), Ok(long.clone()));
        for (bytes, reason) in [
            (&long[..200], "its length field is wrong"),
            (&[0x30, 0x82, 1], "it is truncated"),
            (&[0x30, 3, 0x0a, 1, 6], "the responder reported an error"),
            (&[0x30, 3, 0x02, 1, 0], "it is DER, but not an OCSP response"),
            (b"-----BEGIN", "it is not DER"),
            (b"", "it is not DER"),
        ] {
            assert_eq!(outcome(bytes), Err(reason.to_owned()), "{bytes:?}");
        }
    }
}
