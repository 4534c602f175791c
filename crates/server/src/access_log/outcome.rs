//! How a proxy came by the answer to a request, in the words of Squid's log.

/// The cache's action for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// None: the response is the server's own.
    #[default]
    Own,
    MemoryHit,
    DiskHit,
    /// A stored answer that says that there is nothing, or that something failed.
    NegativeHit,
    /// The client already has the stored response (304).
    NotModifiedHit,
    Miss,
    /// Another client's request for the same was followed.
    CollapsedMiss,
    /// An upstream was asked because the client refused a stored response.
    ClientRefreshMiss,
    /// The stored response was revalidated and is current.
    RefreshUnmodified,
    /// The stored response was revalidated and replaced.
    RefreshModified,
    /// Revalidation failed, and the stored response was used anyway.
    RefreshFailed,
    /// The client may not have it.
    Denied,
    /// Bytes were passed both ways.
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
            Outcome::CollapsedMiss => "TCP_CF_MISS",
            Outcome::ClientRefreshMiss => "TCP_CLIENT_REFRESH_MISS",
            Outcome::RefreshUnmodified => "TCP_REFRESH_UNMODIFIED",
            Outcome::RefreshModified => "TCP_REFRESH_MODIFIED",
            Outcome::RefreshFailed => "TCP_REFRESH_FAIL_OLD",
            Outcome::Denied => "TCP_DENIED",
            Outcome::Tunnel => "TCP_TUNNEL",
        }
    }
}
