//! Virtual hosts: which host a request is for, and each host's error pages.
//!
//! A site with one host ignores names. With several, an exact name takes one lookup, and a wildcard one more per dot;
//! names are normalised by [`host::name`].

use std::collections::HashMap;

use sojourn_content::HostId;
use sojourn_http::{SitePath, Status, host};

#[derive(Debug)]
pub struct Hosts {
    pages: Vec<Pages>,
    names: HashMap<Box<[u8]>, HostId>,
    /// By the part after `*.`.
    wildcards: HashMap<Box<[u8]>, HostId>,
    others: UnknownHosts,
}

#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Names or addresses without a port; `*.example.org` matches every name with that suffix.
    pub names: Vec<String>,
    pub pages: Pages,
}

/// Documents sent in place of the requested one.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    pub errors: Vec<(Status, SitePath<'static>)>,
    /// Sent with 200 where nothing is found: for single-page applications that route by script.
    pub fallback: Option<SitePath<'static>>,
}

/// How requests for unknown hosts are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownHosts {
    #[default]
    First,
    /// With 421 (Misdirected Request).
    Refused,
}

/// Why a list of hosts is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("{0:?} is not a host name")]
    NoName(String),
    #[error("the host name {0:?} is used twice")]
    Taken(String),
    #[error("there are more than {} hosts", u16::MAX)]
    TooMany,
}

impl Default for Hosts {
    /// A single host that answers to every name.
    fn default() -> Self {
        Hosts {
            pages: vec![Pages::default()],
            names: HashMap::new(),
            wildcards: HashMap::new(),
            others: UnknownHosts::First,
        }
    }
}

impl Hosts {
    /// Hosts in the order of the origin's directories.
    pub fn new(hosts: Vec<Host>, others: UnknownHosts) -> Result<Hosts, HostError> {
        let mut table = Hosts { pages: Vec::new(), others, ..Hosts::default() };
        for (number, Host { names, pages }) in hosts.into_iter().enumerate() {
            let id = HostId(u16::try_from(number).map_err(|_| HostError::TooMany)?);
            table.pages.push(pages);
            for name in names {
                table.call(id, name)?;
            }
        }
        Ok(table)
    }

    /// The host called `host`, with or without a port; `None` if it is unknown.
    pub fn find(&self, host: Option<&[u8]>) -> Option<HostId> {
        if self.names.is_empty() && self.wildcards.is_empty() {
            return self.default_host();
        }
        let mut buffer = [0; host::NAME_BYTES_MAX];
        let name = host.and_then(|host| host::name(host, &mut buffer));
        name.and_then(|name| self.named(name)).or(self.default_host())
    }

    pub fn error_page(&self, host: HostId, status: Status) -> Option<&SitePath<'static>> {
        let errors = &self.pages[usize::from(host.0)].errors;
        errors.iter().find(|(of, _)| *of == status).map(|(_, path)| path)
    }

    /// The document that `host` sends where nothing is found.
    pub fn fallback(&self, host: HostId) -> Option<&SitePath<'static>> {
        self.pages[usize::from(host.0)].fallback.as_ref()
    }

    fn call(&mut self, id: HostId, name: String) -> Result<(), HostError> {
        if !host::is_name(&name) {
            return Err(HostError::NoName(name));
        }
        let mut buffer = [0; host::NAME_BYTES_MAX];
        let (table, bare) = match name.strip_prefix("*.") {
            Some(bare) => (&mut self.wildcards, bare),
            None => (&mut self.names, &*name),
        };
        let Some(key) = host::name(bare.as_bytes(), &mut buffer) else { return Err(HostError::NoName(name)) };
        match table.insert(key.into(), id) {
            Some(other) if other != id => Err(HostError::Taken(name)),
            _ => Ok(()),
        }
    }

    fn named(&self, name: &[u8]) -> Option<HostId> {
        let after_dots =
            name.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(dot, _)| &name[dot + 1..]);
        let mut wild = after_dots.filter_map(|rest| self.wildcards.get(rest));
        self.names.get(name).or_else(|| wild.next()).copied()
    }

    fn default_host(&self) -> Option<HostId> {
        (self.others == UnknownHosts::First).then_some(HostId(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(names: &[&str]) -> Host {
        Host { names: names.iter().map(|name| (*name).to_owned()).collect(), pages: Pages::default() }
    }

    #[test]
    fn a_name_finds_its_host() {
        let hosts = [
            host(&[]),
            host(&["Example.org", "[::1]"]),
            host(&["*.example.org"]),
            host(&["*.b.example.org"]),
        ];
        let refusing = Hosts::new(hosts.to_vec(), UnknownHosts::Refused).unwrap();
        let forgiving = Hosts::new(hosts.to_vec(), UnknownHosts::First).unwrap();
        for (name, expected) in [
            ("example.org", Some(1)),
            ("EXAMPLE.org.:8080", Some(1)),
            ("[::1]:80", Some(1)),
            ("a.example.org", Some(2)),
            ("b.example.org", Some(2)),
            ("a.b.example.org", Some(3)),
            ("a.a.example.org:1", Some(2)),
            ("notexample.org", None),
            ("org", None),
            ("", None),
        ] {
            assert_eq!(refusing.find(Some(name.as_bytes())), expected.map(HostId), "{name}");
            assert_eq!(forgiving.find(Some(name.as_bytes())), Some(HostId(expected.unwrap_or(0))), "{name}");
        }
        assert_eq!((refusing.find(None), forgiving.find(None)), (None, Some(HostId(0))));
        assert_eq!(Hosts::default().find(Some(b"any")), Some(HostId(0)));
    }

    #[test]
    fn hosts_that_cannot_be() {
        let check = |names: &[&str], expected: HostError| {
            let error = Hosts::new(vec![host(&["a"]), host(names)], UnknownHosts::First).unwrap_err();
            assert_eq!(error, expected);
        };
        check(&["A."], HostError::Taken("A.".to_owned()));
        check(&["a:80"], HostError::NoName("a:80".to_owned()));
        check(&["*"], HostError::NoName("*".to_owned()));
        assert!(Hosts::new(vec![host(&["a", "A", "*.a"])], UnknownHosts::First).is_ok());
    }
}
