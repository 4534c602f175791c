//! Makes the TLS configuration from options.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use sojourn_server::Listener;
use sojourn_server::connection::Transport;
use sojourn_server::tls::{CertificateFiles, TICKETS_STATE_BYTES, Tickets, Tls};

use super::options::listen::TlsOptions;

impl TlsOptions {
    /// The TLS configuration, if any of `listeners` uses it; `tickets` is the descriptor of inherited keys.
    pub fn tls_of(&self, listeners: &[Listener], tickets: Option<RawFd>) -> anyhow::Result<Option<Arc<Tls>>> {
        if listeners.iter().any(|listener| listener.transport == Transport::Tls) {
            return self.tls(tickets).map(Some);
        }
        ensure!(
            self.tls_certificate.is_empty() && self.tls_key.is_empty() && self.tls_ocsp.is_empty(),
            "there are certificates, but no TLS listener\nhint: add --tls-listen ADDR"
        );
        Ok(None)
    }

    /// The TLS configuration; `tickets` is the descriptor of inherited keys.
    pub fn tls(&self, tickets: Option<RawFd>) -> anyhow::Result<Arc<Tls>> {
        let (certificates, keys) = (&self.tls_certificate, &self.tls_key);
        ensure!(
            !certificates.is_empty(),
            "TLS needs a certificate\nhint: add --tls-certificate FILE and --tls-key FILE; docs/tls.md shows how to make a pair"
        );
        ensure!(
            certificates.len() == keys.len(),
            "{} --tls-certificate but {} --tls-key\nhint: give a key for each certificate, in the same order",
            certificates.len(),
            keys.len()
        );
        ensure!(
            self.tls_ocsp.len() <= certificates.len(),
            "{} --tls-ocsp but {} --tls-certificate\nhint: give one OCSP response for each certificate, in the same order",
            self.tls_ocsp.len(),
            certificates.len()
        );
        let ocsp = self.tls_ocsp.iter().map(Some).chain(std::iter::repeat(None));
        let files = certificates.iter().zip(keys).zip(ocsp);
        let files = files.map(|((certificate, key), ocsp)| CertificateFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            ocsp: ocsp.cloned(),
        });
        let tickets = tickets.map(inherited_tickets).transpose()?.unwrap_or_default();
        let tls = Tls::new(&files.collect::<Vec<_>>(), tickets);
        tls.map(Arc::new).map_err(|error| anyhow!("{error}\nhint: {}", error.hint()))
    }
}

fn inherited_tickets(descriptor: RawFd) -> anyhow::Result<Tickets> {
    // SAFETY: the server that executed this program passed on the descriptor.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let mut state = [0; TICKETS_STATE_BYTES];
    file.read_exact_at(&mut state, 0).context("cannot read the session ticket keys")?;
    Ok(Tickets::from_state(state))
}
