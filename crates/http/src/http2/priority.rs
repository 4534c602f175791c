//! The priority of a response (RFC 9218), as the Priority field and PRIORITY_UPDATE say it.

/// What a client says of a response; it is the server's choice what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// The client can use parts of it, so it may be sent in turns with others.
    pub is_incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, is_incremental: false }
    }
}

const URGENCY_MAX: u8 = 7;

impl Priority {
    /// Reads the value of a Priority field. Unknown and invalid members are ignored (RFC 9218, 4).
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::default();
        for member in value.split(|byte| *byte == b',') {
            // RFC 8941, 3.1.2: parameters follow a semicolon.
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', digit @ b'0'..=b'9'] if digit - b'0' <= URGENCY_MAX => {
                    priority.urgency = digit - b'0';
                }
                b"i" | b"i=?1" => priority.is_incremental = true,
                b"i=?0" => priority.is_incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let check = |value: &str, urgency, is_incremental| {
            assert_eq!(Priority::parse(value.as_bytes()), Priority { urgency, is_incremental }, "{value:?}");
        };
        check("", 3, false);
        check("u=0", 0, false);
        check("u=5, i", 5, true);
        check("i,u=7", 7, true);
        check("u=1;x=2, i=?1", 1, true);
        check("u=1, i=?0", 1, false);
        check("u=1, u=2", 2, false);
        check("u=8, i=1", 3, false);
        check("u=-1, x, u = 2", 3, false);
    }
}
