//! The Transport field (RFC 2326, 12.39): how a track's packets travel.

use std::fmt;

/// The most alternatives considered in a Transport field.
const TRANSPORTS_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LowerTransport {
    Udp,
    Tcp,
}

/// A transport that a client offers or a server has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    pub lower: LowerTransport,
    /// Multicast, to many receivers at once.
    pub is_multicast: bool,
    /// The client's ports for RTP and RTCP.
    pub client_ports: Option<(u16, u16)>,
    pub server_ports: Option<(u16, u16)>,
    /// The interleaved channels for RTP and RTCP.
    pub channels: Option<(u8, u8)>,
    /// The sender of the packets (SSRC).
    pub source: Option<u32>,
    /// A destination other than the client's address.
    pub destination: Option<String>,
    /// True for PLAY, false for RECORD.
    pub plays: bool,
}

/// Why a Transport field contains no usable transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    #[error("the Transport field is malformed")]
    Malformed,
    #[error("none of the offered transports is supported")]
    Unsupported,
}

impl Transport {
    pub fn udp(client_ports: (u16, u16)) -> Transport {
        Transport { client_ports: Some(client_ports), ..Transport::over(LowerTransport::Udp) }
    }

    pub fn interleaved(channels: (u8, u8)) -> Transport {
        Transport { channels: Some(channels), ..Transport::over(LowerTransport::Tcp) }
    }

    fn over(lower: LowerTransport) -> Transport {
        Transport {
            lower,
            is_multicast: false,
            client_ports: None,
            server_ports: None,
            channels: None,
            source: None,
            destination: None,
            plays: true,
        }
    }

    /// The transports in `field` in order, without unknown ones.
    ///
    /// # Errors
    /// If one of them is malformed, or none is known.
    pub fn parse_all(field: &str) -> Result<Vec<Transport>, TransportError> {
        let mut offered = Vec::new();
        for text in field.split(',').take(TRANSPORTS_MAX) {
            offered.extend(parse(text.trim())?);
        }
        if offered.is_empty() { Err(TransportError::Unsupported) } else { Ok(offered) }
    }
}

/// Parses one transport; `None` if it is not RTP/AVP over UDP or TCP.
fn parse(text: &str) -> Result<Option<Transport>, TransportError> {
    let mut parts = text.split(';').map(str::trim);
    let mut transport = match parts.next() {
        Some("RTP/AVP" | "RTP/AVP/UDP") => Transport::over(LowerTransport::Udp),
        Some("RTP/AVP/TCP") => Transport::over(LowerTransport::Tcp),
        Some("") | None => return Err(TransportError::Malformed),
        Some(_) => return Ok(None),
    };
    // Without either word it is multicast (12.39), which makes no sense for interleaved channels.
    let mut is_unicast = transport.lower == LowerTransport::Tcp;
    for part in parts.filter(|part| !part.is_empty()) {
        let (name, value) =
            part.split_once('=').map_or((part, ""), |(name, value)| (name.trim(), value.trim()));
        match name {
            "unicast" => is_unicast = true,
            "multicast" => transport.is_multicast = true,
            "client_port" => transport.client_ports = Some(pair(value)?),
            "server_port" => transport.server_ports = Some(pair(value)?),
            "interleaved" => transport.channels = Some(pair(value)?),
            "ssrc" => transport.source = Some(hexadecimal(value)?),
            "destination" => transport.destination = Some(value.trim_matches('"').to_owned()),
            "mode" => transport.plays = value.trim_matches('"').eq_ignore_ascii_case("PLAY"),
            // Irrelevant or unknown parameters.
            _ => {}
        }
    }
    // A client that gives its ports means unicast.
    transport.is_multicast |= !is_unicast && transport.client_ports.is_none();
    Ok(Some(transport))
}

/// Parses `8000-8001`, or `8000`, which implies 8001.
fn pair<T: std::str::FromStr + TryFrom<u32> + Into<u32> + Copy>(
    text: &str,
) -> Result<(T, T), TransportError> {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<T>().ok().filter(|_| is_number).ok_or(TransportError::Malformed)
    };
    match text.split_once('-') {
        Some((first, second)) => Ok((number(first)?, number(second)?)),
        None => {
            let first = number(text)?;
            let second = T::try_from(first.into() + 1).map_err(|_| TransportError::Malformed)?;
            Ok((first, second))
        }
    }
}

fn hexadecimal(text: &str) -> Result<u32, TransportError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(text, 16).ok().filter(|_| is_number).ok_or(TransportError::Malformed)
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.lower {
            LowerTransport::Udp => "RTP/AVP",
            LowerTransport::Tcp => "RTP/AVP/TCP",
        })?;
        out.write_str(if self.is_multicast { ";multicast" } else { ";unicast" })?;
        if let Some(destination) = &self.destination {
            write!(out, ";destination={destination}")?;
        }
        if let Some((first, second)) = self.client_ports {
            write!(out, ";client_port={first}-{second}")?;
        }
        if let Some((first, second)) = self.server_ports {
            write!(out, ";server_port={first}-{second}")?;
        }
        if let Some((first, second)) = self.channels {
            write!(out, ";interleaved={first}-{second}")?;
        }
        if let Some(source) = self.source {
            write!(out, ";ssrc={source:08X}")?;
        }
        out.write_str(if self.plays { ";mode=\"PLAY\"" } else { ";mode=\"RECORD\"" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(field: &str, expected: Result<&[&str], TransportError>) {
        let offered = Transport::parse_all(field);
        let texts = offered.map(|all| all.iter().map(Transport::to_string).collect::<Vec<_>>());
        assert_eq!(
            texts.as_ref().map(|all| all.iter().map(String::as_str).collect::<Vec<_>>()).map_err(|e| *e),
            expected.map(<[&str]>::to_vec),
            "{field}"
        );
    }

    #[test]
    fn what_players_offer() {
        check(
            "RTP/AVP/UDP;unicast;client_port=25544-25545",
            Ok(&["RTP/AVP;unicast;client_port=25544-25545;mode=\"PLAY\""]),
        );
        check(
            "RTP/AVP/TCP;unicast;interleaved=0-1, RTP/AVP;unicast;client_port=8000;mode=play",
            Ok(&[
                "RTP/AVP/TCP;unicast;interleaved=0-1;mode=\"PLAY\"",
                "RTP/AVP;unicast;client_port=8000-8001;mode=\"PLAY\"",
            ]),
        );
        check("RTP/SAVP;unicast;client_port=1-2,RTP/AVP/TCP", Ok(&["RTP/AVP/TCP;unicast;mode=\"PLAY\""]));
        check("RTP/AVP;multicast;ttl=3", Ok(&["RTP/AVP;multicast;mode=\"PLAY\""]));
        check("RTP/AVP", Ok(&["RTP/AVP;multicast;mode=\"PLAY\""]));
        check(
            "RTP/AVP;unicast;client_port=4-5;server_port=6-7;ssrc=00ab12CD;destination=192.0.2.9;mode=\"RECORD\"",
            Ok(&[
                "RTP/AVP;unicast;destination=192.0.2.9;client_port=4-5;server_port=6-7;ssrc=00AB12CD;mode=\"RECORD\"",
            ]),
        );
    }

    #[test]
    fn refusals() {
        for malformed in [
            "",
            ",",
            "RTP/AVP;unicast;client_port=",
            "RTP/AVP;unicast;client_port=-5",
            "RTP/AVP;unicast;client_port=+5-6",
            "RTP/AVP;unicast;client_port=65535",
            "RTP/AVP;unicast;client_port=8000-65536",
            "RTP/AVP/TCP;interleaved=256-257",
            "RTP/AVP;ssrc=123456789",
        ] {
            check(malformed, Err(TransportError::Malformed));
        }
        check("RTP/SAVP;unicast;client_port=1-2", Err(TransportError::Unsupported));
        check("RAW/RAW/UDP", Err(TransportError::Unsupported));
    }
}
