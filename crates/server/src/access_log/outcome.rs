//! How a proxy's cache handled a request, in the terms of Squid's access log.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Not from the cache: the server's own response.
    #[default]
    Own,
    MemoryHit,
    DiskHit,
    /// A stored negative response: an error, or that nothing is there.
    NegativeHit,
    /// The client already has the stored response (304).
    NotModifiedHit,
    Miss,
    /// The request was coalesced with another client's.
    CoalescedMiss,
    /// Forwarded because the client refused a stored response.
    ClientRefreshMiss,
    /// The stored response was revalidated and is current.
    RefreshUnmodified,
    /// The stored response was revalidated and replaced.
    RefreshModified,
    /// Revalidation failed, and the stored response was used anyway.
    RefreshFailed,
    /// The client is not allowed.
    Denied,
    /// A tunnel (CONNECT).
    Tunnel,
}

impl Outcome {
    pub fn code(self) -> &'static str {
        match self {
            Outcome::Own => "NONE_NONE",
            Outcome::MemoryHit => "TCP_MEM_HIT",
            Outcome::DiskHit => "TCP_HIT",
            Outcome::NegativeHit => "TCP_NEGATIVE_HIT",
            Outcome::NotModifiedHit => "TCP_INM_HIT",
            Outcome::Miss => "TCP_MISS",
            Outcome::CoalescedMiss => "TCP_CF_MISS",
            Outcome::ClientRefreshMiss => "TCP_CLIENT_REFRESH_MISS",
            Outcome::RefreshUnmodified => "TCP_REFRESH_UNMODIFIED",
            Outcome::RefreshModified => "TCP_REFRESH_MODIFIED",
            Outcome::RefreshFailed => "TCP_REFRESH_FAIL_OLD",
            Outcome::Denied => "TCP_DENIED",
            Outcome::Tunnel => "TCP_TUNNEL",
        }
    }
}
