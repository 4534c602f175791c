//! TCP counters of a network namespace that explain odd latencies: accept queue overflows and retransmissions, which
//! show as steps of 1 s and 3 s.

use std::{io, ops::Sub};

use crate::proc_file;

const EXTENSIONS: &str = "/proc/net/netstat";
const BASE: &str = "/proc/net/snmp";

/// Counters since boot; subtract an earlier reading for a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpCounters {
    /// Connections that found a listener's accept queue full.
    pub listen_overflows: u64,
    /// Connection attempts that a listener dropped for any reason.
    pub listen_drops: u64,
    pub retransmitted_segments: u64,
}

impl TcpCounters {
    pub fn read() -> io::Result<TcpCounters> {
        TcpCounters::parse(&proc_file::read(EXTENSIONS)?, &proc_file::read(BASE)?)
    }

    /// Parses the texts of `netstat` and `snmp`.
    pub fn parse(extensions: &str, base: &str) -> io::Result<TcpCounters> {
        let extension = |name| {
            find(extensions, "TcpExt:", name).ok_or_else(|| proc_file::missing_entry(EXTENSIONS, name))
        };
        Ok(TcpCounters {
            listen_overflows: extension("ListenOverflows")?,
            listen_drops: extension("ListenDrops")?,
            retransmitted_segments: find(base, "Tcp:", "RetransSegs")
                .ok_or_else(|| proc_file::missing_entry(BASE, "RetransSegs"))?,
        })
    }
}

impl Sub for TcpCounters {
    type Output = TcpCounters;
    fn sub(self, earlier: TcpCounters) -> TcpCounters {
        TcpCounters {
            listen_overflows: self.listen_overflows.saturating_sub(earlier.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(earlier.listen_drops),
            retransmitted_segments: self
                .retransmitted_segments
                .saturating_sub(earlier.retransmitted_segments),
        }
    }
}

/// Finds a value: names are on one line, values on the next, with the same prefix.
fn find(text: &str, prefix: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next()?, lines.next()?);
    let column = names.split_ascii_whitespace().position(|column| column == name)?;
    values.split_ascii_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_value_under_its_name() {
        let text = "Tcp: A RetransSegs B\nTcp: 1 7 3\nUdp: A\nUdp: 9\n";
        assert_eq!(find(text, "Tcp:", "RetransSegs"), Some(7));
        assert_eq!(find(text, "Tcp:", "C"), None);
    }

    #[test]
    fn this_machine_has_them() {
        TcpCounters::read().unwrap();
    }
}
