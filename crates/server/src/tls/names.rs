//! Selects the certificate by the name that the client requests (SNI, RFC 6066, 3).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

#[derive(Debug)]
pub struct ByName {
    /// Names in lower case; of a wildcard, the part after the star.
    names: HashMap<String, Arc<CertifiedKey>>,
    /// For clients without SNI, or with an unknown name.
    first: Arc<CertifiedKey>,
}

impl ByName {
    /// `certificates` must not be empty. If two have the same name, the earlier one is used.
    pub fn new(certificates: Vec<CertifiedKey>) -> ByName {
        let certificates: Vec<_> = certificates.into_iter().map(Arc::new).collect();
        let first = Arc::clone(certificates.first().expect("a certificate"));
        let mut names = HashMap::new();
        for certificate in &certificates {
            for name in names_of(certificate) {
                names.entry(name).or_insert_with(|| Arc::clone(certificate));
            }
        }
        ByName { names, first }
    }

    fn find(&self, name: &str) -> &Arc<CertifiedKey> {
        let name = name.to_ascii_lowercase();
        // RFC 9525, 6.3: a wildcard stands for one whole label.
        let wildcard = || self.names.get(&name[name.find('.')?..]);
        self.names.get(&name).or_else(wildcard).unwrap_or(&self.first)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(hello.server_name().map_or(&self.first, |name| self.find(name))))
    }
}

fn names_of(certificate: &CertifiedKey) -> Vec<String> {
    let Some(own) = certificate.cert.first() else { return Vec::new() };
    // An unreadable certificate was refused together with its key.
    let Ok(own) = webpki::EndEntityCert::try_from(own) else { return Vec::new() };
    own.valid_dns_names().map(|name| name.trim_start_matches('*').to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::generate_simple_self_signed;
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::PrivateKeyDer;

    fn certificate(names: &[&str]) -> CertifiedKey {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let pair = generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
        let key = default_provider().key_provider.load_private_key(key).unwrap();
        CertifiedKey::new(vec![pair.cert.into()], key)
    }

    #[test]
    fn the_name_asked_for_chooses() {
        let certificates: Vec<_> =
            [&["a.example", "B.example"][..], &["*.w.example"], &["a.example", "c.test"]]
                .map(certificate)
                .into();
        let own: Vec<_> = certificates.iter().map(|certificate| certificate.cert[0].clone()).collect();
        let names = ByName::new(certificates);
        let chosen = |name| own.iter().position(|own| *own == names.find(name).cert[0]).unwrap();
        for (name, expected) in [
            ("a.example", 0),
            ("A.EXAMPLE", 0),
            ("b.example", 0),
            ("x.w.example", 1),
            ("x.y.w.example", 0),
            ("c.test", 2),
            ("w.example", 0),
            ("nowhere", 0),
        ] {
            assert_eq!(chosen(name), expected, "{name}");
        }
    }
}
