//! Session tickets that every process of a server can open, under keys that rotate by the clock.
//!
//! All processes start with the same secret, and each period's secret is derived from the last one by a one-way
//! function (HKDF, RFC 5869). So they agree without communicating, and today's secret does not open yesterday's
//! tickets. Tickets are sealed with ChaCha20-Poly1305 under a random nonce (RFC 5077, 4).

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

/// How long tickets are sealed with a key. It opens them for another period.
const PERIOD: Duration = Duration::from_secs(6 * 3600);

/// Longer tickets are neither made nor accepted; a session's state has a few hundred bytes.
const TICKET_BYTES_MAX: usize = 1024;

pub const TICKETS_STATE_BYTES: usize = 8 + SECRET_BYTES;

const SECRET_BYTES: usize = 32;
const NAME_BYTES: usize = 16;

pub struct Tickets(Mutex<Keys>);

struct Keys {
    /// The number of the current period since the epoch.
    period: u64,
    secret: [u8; SECRET_BYTES],
    current: Key,
    previous: Option<Key>,
}

/// The key of one period, and its name, with which its tickets begin.
struct Key {
    name: [u8; NAME_BYTES],
    key: LessSafeKey,
}

impl Tickets {
    /// A new random secret.
    ///
    /// # Panics
    /// If the system has no randomness.
    pub fn new() -> Tickets {
        let mut secret = [0; SECRET_BYTES];
        SystemRandom::new().fill(&mut secret).expect("the system's randomness");
        Tickets::of(period_at(SystemTime::now()), secret)
    }

    /// Keys derived from another process's `state`.
    pub fn from_state(state: [u8; TICKETS_STATE_BYTES]) -> Tickets {
        let (period, secret) = state.split_at(8);
        let period = u64::from_le_bytes(period.try_into().expect("8 bytes"));
        Tickets::of(period, secret.try_into().expect("the rest is the secret"))
    }

    /// The secret from which another process derives the same keys.
    pub fn state(&self) -> [u8; TICKETS_STATE_BYTES] {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = [0; TICKETS_STATE_BYTES];
        state[..8].copy_from_slice(&keys.period.to_le_bytes());
        state[8..].copy_from_slice(&keys.secret);
        state
    }

    fn of(period: u64, secret: [u8; SECRET_BYTES]) -> Tickets {
        Tickets(Mutex::new(Keys { period, secret, current: Key::of(&secret), previous: None }))
    }

    fn seal(&self, plain: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.advance(period_at(now));
        keys.current.seal(plain)
    }

    fn open(&self, ticket: &[u8], now: SystemTime) -> Option<Vec<u8>> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.advance(period_at(now));
        let (name, sealed) = ticket.split_at_checked(NAME_BYTES)?;
        let key = [Some(&keys.current), keys.previous.as_ref()]
            .into_iter()
            .flatten()
            // The name is public: it is in every ticket.
            .find(|key| key.name == name)?;
        key.open(sealed)
    }
}

impl Default for Tickets {
    fn default() -> Self {
        Tickets::new()
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        PERIOD.as_secs() as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, SystemTime::now())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(ticket, SystemTime::now())
    }
}

impl Keys {
    /// Advances to the keys of `period`. A clock that goes back changes nothing.
    fn advance(&mut self, period: u64) {
        while self.period < period {
            // After a long sleep no openable tickets are left.
            let is_last = self.period + 1 == period;
            self.secret = derive(&self.secret, b"next");
            let before = std::mem::replace(&mut self.current, Key::of(&self.secret));
            self.previous = is_last.then_some(before);
            self.period += 1;
        }
    }
}

impl Key {
    fn of(secret: &[u8; SECRET_BYTES]) -> Key {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &derive::<32>(secret, b"key")).expect("its length");
        Key { name: derive(secret, b"name"), key: LessSafeKey::new(key) }
    }

    /// Key name, nonce, and the sealed bytes with their tag.
    fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        // Random, because a counter would reveal the number of clients.
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(unique, Aad::from(self.name), &mut sealed).ok()?;
        let ticket = [&self.name[..], &nonce, &sealed].concat();
        (ticket.len() <= TICKET_BYTES_MAX).then_some(ticket)
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        if sealed.len() > TICKET_BYTES_MAX {
            return None;
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = sealed.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(self.name), &mut bytes).ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }
}

fn derive<const LENGTH: usize>(secret: &[u8; SECRET_BYTES], purpose: &[u8]) -> [u8; LENGTH] {
    struct Length(usize);
    impl KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut derived = [0; LENGTH];
    // The secret is uniform, so it needs no extraction (RFC 5869, 3.3).
    Prk::new_less_safe(HKDF_SHA256, secret)
        .expand(&[b"session tickets ", purpose], Length(LENGTH))
        .and_then(|output| output.fill(&mut derived))
        .expect("less than HKDF can give");
    derived
}

fn period_at(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / PERIOD.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_period(period: u64) -> SystemTime {
        UNIX_EPOCH + PERIOD * period as u32 + PERIOD / 2
    }

    #[test]
    fn a_ticket_is_opened_in_its_period_and_the_next() {
        let tickets = Tickets::of(100, [7; SECRET_BYTES]);
        let ticket = tickets.seal(b"session", in_period(100)).unwrap();
        assert_eq!(tickets.open(&ticket, in_period(100)).unwrap(), b"session");
        assert_eq!(tickets.open(&ticket, in_period(101)).unwrap(), b"session");
        // A clock that goes back does not restore old keys.
        assert_eq!(tickets.open(&ticket, in_period(100)).unwrap(), b"session");
        assert_eq!(tickets.open(&ticket, in_period(102)), None);
        let ticket = tickets.seal(b"session", in_period(102)).unwrap();
        assert_eq!(tickets.open(&ticket, in_period(999)), None);
    }

    #[test]
    fn others_with_the_same_beginning_agree_at_any_time() {
        let first = Tickets::of(100, [7; SECRET_BYTES]);
        let other = Tickets::from_state(first.state());
        for period in [100, 103] {
            let ticket = first.seal(b"session", in_period(period)).unwrap();
            assert_eq!(other.open(&ticket, in_period(period)).unwrap(), b"session", "{period}");
        }
        let stranger = Tickets::new();
        let ticket = first.seal(b"session", in_period(103)).unwrap();
        assert_eq!(stranger.open(&ticket, in_period(103)), None);
    }

    #[test]
    fn what_is_no_ticket_is_not_opened() {
        let tickets = Tickets::new();
        let now = SystemTime::now();
        let ticket = tickets.seal(b"session", now).unwrap();
        for index in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[index] ^= 1;
            assert_eq!(tickets.open(&changed, now), None, "{index}");
            assert_eq!(tickets.open(&ticket[..index], now), None, "{index}");
        }
        assert_eq!(tickets.seal(&[0; TICKET_BYTES_MAX], now), None);
    }
}
