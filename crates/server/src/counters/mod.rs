//! The server's counters: one table that feeds the final report, the metrics page and the JSON keys.
//!
//! A loop or worker process counts in plain memory of its own ([`Served`]) and publishes the table to its slot on the
//! [`Scoreboard`](crate::counters::scoreboard::Scoreboard), where others read it.

use serde::ser::{Serialize, SerializeMap, Serializer};
use sojourn_content::CacheCounts;

use crate::counter_table;

pub(crate) mod scoreboard;
mod table;

pub use table::CounterKind;
use table::CounterKind as Kind;

counter_table! {
    /// A counter; metrics prefix its key with `sojourn_`.
    pub enum Counter;

    Requests "requests" Total "Requests answered."
    Responses2xx "responses_2xx" Total "Responses with a status of 200 to 299."
    Responses3xx "responses_3xx" Total "Responses with a status of 300 to 399."
    Responses4xx "responses_4xx" Total "Responses with a status of 400 to 499."
    Responses5xx "responses_5xx" Total "Responses with a status of 500 to 599."
    SentBytes "sent_bytes" Total "Bytes sent to clients, heads included."
    ReceivedBytes "received_bytes" Total "Bytes received from clients."
    ConnectionsAccepted "connections_accepted" Total "Connections accepted."
    ConnectionsShed "connections_shed" Total "Connections answered 503 immediately, because descriptors or connection slots ran out."
    ConnectionsOpen "connections_open" Gauge "Connections open now."
    ConnectionErrors "connection_errors" Total "Connections that ended in an error: reset, truncated file."
    Timeouts "timeouts" Total "Connections closed because the client took too long."
    LimitConnections "limit_hits_connections_max" Limit "Connections refused because too many were open."
    LimitConnectionsPerAddress "limit_hits_connections_per_address" Limit "Connections refused because too many were open from their address."
    LimitMemory "limit_hits_memory_limit" Limit "Connections refused, or closed on clients that kept the server waiting, because memory was short."
    OverloadMemory "overload_memory" Gauge "Event loops whose process is above the high watermark of memory."
    OverloadConnections "overload_connections" Gauge "Event loops that see more open connections than the high watermark."
    OverloadUpstreamQueue "overload_upstream_queue" Gauge "Event loops in which more requests wait for an upstream than the high watermark."
    OverloadConnectionsClosed "overload_connections_closed" Total "Idle connections closed to leave places for new ones, above the high watermark of connections."
    OverloadAcceptQueue "overload_accept_queue" Gauge "Event loops whose accept queue is shortened, because connections waited in it for too long."
    LimitAcceptWait "limit_hits_accept_wait_max" Limit "Times that an accept queue was shortened because connections waited in it for too long."
    LimitRequestsPerConnection "limit_hits_requests_per_connection_max" Limit "Connections closed after their last request allowed."
    LimitIdle "limit_hits_idle_timeout" Limit "Connections closed because no request arrived."
    LimitHead "limit_hits_head_timeout" Limit "Requests refused because their head or body took too long."
    LimitSend "limit_hits_send_timeout" Limit "Connections closed because the client took its response too slowly."
    LimitEnd "limit_hits_end_timeout" Limit "Connections closed because the client did not close after the last response."
    LimitChildren "limit_hits_children_max" Limit "Connections refused because the limit of child processes was reached."
    LimitWorkers "limit_hits_workers" Limit "Connections closed on clients that kept a worker waiting while others waited for one."
    LimitUpstreamConnect "limit_hits_upstream_connect_timeout" Limit "Requests to upstreams that timed out while connecting."
    LimitUpstreamSend "limit_hits_upstream_send_timeout" Limit "Requests to upstreams that timed out while sending the request."
    LimitUpstreamHead "limit_hits_upstream_head_timeout" Limit "Requests to upstreams that timed out before the response head."
    LimitUpstreamBody "limit_hits_upstream_body_timeout" Limit "Requests to upstreams that timed out in the middle of a response body."
    LimitUpstreamConnections "limit_hits_upstream_connections_max" Limit "Requests answered 503 because no connection to an upstream was free for their client in time."
    LimitGathered "limit_hits_upstream_gathered_max" Limit "Requests answered 413 because their body was too long to be buffered."
    LimitGatheredTotal "limit_hits_upstream_gathered_total" Limit "Requests answered 503 because too much of request bodies was buffered."
    LimitScripts "limit_hits_cgi_queue_max" Limit "Requests answered 503 because too many waited for a script."
    LimitScriptTime "limit_hits_cgi_timeout" Limit "Scripts killed because they took too long."
    LimitLookup "limit_hits_lookup_timeout" Limit "Name lookups that timed out."
    LimitLookups "limit_hits_lookups_max" Limit "Requests answered 503 because too many names were being looked up."
    LimitTunnelIdle "limit_hits_tunnel_idle_timeout" Limit "Tunnels closed because they were idle."
    LimitTunnelsPerClient "limit_hits_tunnels_per_client" Limit "Tunnels refused because their client had too many."
    TlsHandshakes "tls_handshakes" Total "TLS handshakes completed."
    TlsHandshakesResumed "tls_handshakes_resumed" Total "TLS handshakes completed that resumed a session."
    TlsHandshakesFailed "tls_handshakes_failed" Total "TLS handshakes started but not completed."
    AcceptErrors "accept_errors" Total "Failures to accept."
    ConnectionsHttp2 "connections_http2" Total "Connections that used HTTP/2."
    Streams "streams" Total "Requests received as HTTP/2 streams."
    StreamsCancelled "streams_cancelled" Total "Streams that the client cancelled, or made impossible to answer."
    StreamsFailed "streams_failed" Total "Streams reset because their response could not be finished."
    StreamsRejected "streams_rejected" Total "Streams reset because of what the client sent on them."
    CacheHits "cache_hits" Total "Requests answered from the proxy's cache."
    CacheHitBytes "cache_hit_bytes" Total "Bytes of bodies that were answered from the proxy's cache."
    CacheMemoryFileHits "cache_memory_file_hits" Total "Responses whose body the kernel sent from a file in memory, without a copy."
    CacheDiskHits "cache_disk_hits" Total "Cache hits whose response was on disk, not in memory."
    CacheMemoryBytes "cache_memory_bytes" Gauge "Bytes of the proxy's cache in memory."
    CacheMemoryObjects "cache_memory_objects" Gauge "Objects of the proxy's cache in memory."
    CacheMemoryEvictions "cache_memory_evictions" Total "Objects dropped from memory to make room."
    CacheMemoryRefused "cache_memory_refused" Total "Objects not stored in memory: too large, or not admitted."
    CacheDiskBytes "cache_disk_bytes" Gauge "Bytes of the proxy's cache on disk, by allocated blocks."
    CacheDiskObjects "cache_disk_objects" Gauge "Objects of the proxy's cache known to be on disk."
    CacheDiskIndexed "cache_disk_indexed" Gauge "1 once the index of the disk is complete after a start, before that 0."
    CacheDiskWritten "cache_disk_written" Total "Objects written to disk."
    CacheDiskEvictions "cache_disk_evictions" Total "Objects removed from disk to make room."
    CacheDiskRefused "cache_disk_refused" Total "Objects not stored on disk: too large, or not admitted."
    CacheDiskWriteFailures "cache_disk_write_failures" Total "Objects that could not be written: the disk is full, slow or broken."
    CacheDiskReadFailures "cache_disk_read_failures" Total "Reads of objects or directories that failed."
    CacheDiskDamaged "cache_disk_damaged" Total "Objects removed from disk because they were damaged."
    CacheDiskJobs "cache_disk_jobs" Gauge "Jobs waiting for the disk now: objects to read, write or remove."
    CachePurges "cache_purges" Total "URLs and surrogate keys purged through the admin listener."
    CacheMisses "cache_misses" Total "Cacheable requests that an upstream answered."
    CacheCoalesced "cache_coalesced" Total "Requests coalesced with one in progress for the same object."
    CacheRevalidations "cache_revalidations" Total "Revalidation requests to upstreams."
    CacheUnchanged "cache_unchanged" Total "Requests answered from the proxy's cache after a successful revalidation."
    CacheStale "cache_stale" Total "Stale responses from the proxy's cache: allowed by the client, during a revalidation, or after an upstream failure."
    CacheForcedHits "cache_forced_hits" Total "Cache hits drawn at random by --force-hit-ratio, an experiment."
    CacheForcedMisses "cache_forced_misses" Total "Cache misses drawn at random by --force-hit-ratio, an experiment, or because nothing was stored yet."
    UpstreamRequests "upstream_requests" Total "Requests sent to upstreams, each repetition counted."
    UpstreamRetries "upstream_retries" Total "Requests repeated because a connection failed before it answered."
    UpstreamFailures "upstream_failures" Total "Exchanges with upstreams that failed."
    UpstreamConnections "upstream_connections" Total "Connections opened to upstreams."
    UpstreamConnectionsReused "upstream_connections_reused" Total "Requests sent on a reused connection."
    UpstreamConnectionsOpen "upstream_connections_open" Gauge "Connections to upstreams open now."
    UpstreamQueueLength "upstream_queue_length" Gauge "Requests that wait for a connection to an upstream now."
    UpstreamGatheredBytes "upstream_gathered_bytes" Gauge "Bytes of request bodies that are buffered before they are sent to an upstream."
    UpstreamTlsHandshakes "upstream_tls_handshakes" Total "TLS handshakes completed with upstreams."
    UpstreamTlsHandshakesResumed "upstream_tls_handshakes_resumed" Total "TLS handshakes completed that resumed a session."
    UpstreamTlsHandshakesFailed "upstream_tls_handshakes_failed" Total "TLS handshakes with upstreams started but not completed."
    UpstreamReceivedBytes "upstream_received_bytes" Total "Bytes received from upstreams, heads included."
    UpstreamSentBytes "upstream_sent_bytes" Total "Bytes sent to upstreams."
    UpstreamsDown "upstreams_down" Gauge "Upstreams out of use after failures; each loop judges for itself."
    UpstreamsFailingChecks "upstreams_failing_checks" Gauge "Upstreams out of use because they fail their health checks."
    HealthChecks "health_checks" Total "Health checks of upstreams."
    HealthChecksFailed "health_checks_failed" Total "Health checks that failed or timed out."
    UpstreamConnectWait "upstream_connect_wait_seconds" Seconds "Time from opening a connection to an upstream until it accepts the start of a request."
    UpstreamHeadWait "upstream_head_wait_seconds" Seconds "Time from sending a request to an upstream until the head of its response."
    UpstreamBodyWait "upstream_body_wait_seconds" Seconds "Time from the head of an upstream's response until its end."
    ScriptsStarted "scripts_started" Total "CGI scripts started."
    ScriptsRunning "scripts_running" Gauge "CGI scripts that run now."
    ApplicationStarts "application_starts" Total "Application processes started, restarts included."
    ApplicationWorkers "application_workers" Gauge "Application processes that run now."
    ForwardDeniedClient "forward_denied_client" Total "Requests refused because this proxy does not serve their client."
    ForwardDeniedTarget "forward_denied_target" Total "Requests refused because their target is not valid for a forward proxy."
    ForwardDeniedPort "forward_denied_port" Total "Requests refused because of the port in their target."
    ForwardDeniedAddress "forward_denied_address" Total "Requests refused because of the address that their target resolves to."
    Lookups "lookups" Total "Names looked up."
    LookupFailures "lookup_failures" Total "Requests whose target's name was not found, or not in time."
    Tunnels "tunnels" Total "Tunnels opened."
    TunnelsOpen "tunnels_open" Gauge "Tunnels open now."
    TunnelSentBytes "tunnel_sent_bytes" Total "Bytes received from clients for tunnels."
    TunnelReceivedBytes "tunnel_received_bytes" Total "Bytes received from origins for tunnels."
    PathCacheHits "path_cache_hits" Total "Paths found in the path cache and fresh."
    PathCacheMisses "path_cache_misses" Total "Paths not found in the path cache, or stale."
    PathCacheEvictions "path_cache_evictions" Total "Paths dropped to make room."
    PathCacheBytes "path_cache_bytes" Gauge "Size of the path cache."
    HeadCacheHits "head_cache_hits" Total "Response fields found in the head cache."
    HeadCacheMisses "head_cache_misses" Total "Response fields not found in the head cache."
    HeadCacheEvictions "head_cache_evictions" Total "Response fields dropped to make room."
    HeadCacheBytes "head_cache_bytes" Gauge "Size of the head cache."
    BodyCacheHits "body_cache_hits" Total "Chunks of bodies found in the body cache."
    BodyCacheMisses "body_cache_misses" Total "Chunks not found in the body cache."
    BodyCacheEvictions "body_cache_evictions" Total "Chunks dropped to make room."
    BodyCacheBytes "body_cache_bytes" Gauge "Size of the body cache."
    ResidencyTests "residency_tests" Total "Tests whether file data is in memory."
    ResidencyMisses "residency_misses" Total "Residency tests that found data not in memory, or could not tell."
    ResidencyTrusted "residency_tests_skipped" Total "Residency tests skipped because a recent one was trusted."
    BlockingOpens "blocking_opens" Total "Opens performed by the event loop because the name was not in the kernel's cache (amped-nowait)."
    HelperJobs "helper_jobs" Total "Jobs performed by helpers; connections served by them."
    HelperCoalesced "helper_jobs_coalesced" Total "Requests that joined a job in progress."
    HelperRefused "helper_jobs_refused" Total "Requests or connections answered 503 because the helpers' queue was full."
    HelperRepeated "helper_jobs_repeated" Total "Jobs restarted because their helper process ended."
    HelpersLost "helpers_lost" Total "Helper processes that ended unexpectedly; each is replaced when there is work for it."
    HelperQueueLength "helper_queue_length" Gauge "Jobs or connections waiting for a helper now."
    HelperQueueWait "helper_queue_wait_seconds" Seconds "Time that jobs or connections waited for a helper."
    HelperBusy "helper_busy_seconds" Seconds "Time that helpers spent on jobs or connections."
    Children "children" Gauge "Child processes alive now."
    ChildrenStarted "children_started" Total "Child processes started."
    ChildrenReplaced "children_replaced" Total "Child processes that ended unexpectedly and were replaced."
    ChildrenFailed "children_failed" Total "Child processes that ended by a signal or a failure."
    OriginOpens "origin_opens" Total "Requests to a remote origin for an object with its attributes, revalidations included."
    OriginUnchanged "origin_unchanged" Total "Revalidations by which a remote origin's object was found unchanged."
    OriginReads "origin_reads" Total "Requests to a remote origin for further parts of objects."
    OriginReceivedBytes "origin_received_bytes" Total "Bytes of objects received from a remote origin."
    OriginStale "origin_stale" Total "Stale objects used because a remote origin failed (--origin-stale)."
    OriginChanged "origin_changed" Total "Parts of objects that could not be read because the object had changed."
    OriginFailures "origin_failures" Total "Requests to a remote origin that failed."
    OriginTimeouts "origin_timeouts" Total "Requests to a remote origin that exceeded one of its timeouts."
    MajorFaults "major_faults" Total "Page faults of the server's processes that waited for a disk."
    LogLinesDropped "log_lines_dropped" Total "Access log lines dropped because the log could not keep up."
}

pub const COUNT: usize = Counter::ALL.len();

/// Words of a bit for each counter.
const WORDS: usize = COUNT.div_ceil(u64::BITS as usize);

/// The values of all counters, of one loop or of all.
#[derive(Clone, Debug)]
pub struct Served {
    values: [u64; COUNT],
    /// A bit for each that has changed since it was last published: an event changes few of them.
    changed: [u64; WORDS],
}

impl Default for Served {
    fn default() -> Self {
        Served::of([0; COUNT])
    }
}

impl PartialEq for Served {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Eq for Served {}

impl Served {
    fn of(values: [u64; COUNT]) -> Served {
        Served { values, changed: [0; WORDS] }
    }

    pub fn value(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// The value in seconds of a counter of nanoseconds.
    pub fn seconds(&self, counter: Counter) -> f64 {
        self.value(counter) as f64 / 1e9
    }

    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    pub fn add(&mut self, counter: Counter, amount: u64) {
        self.values[counter as usize] += amount;
        self.mark(counter as usize);
    }

    /// Sets a counter that is maintained elsewhere.
    pub fn set(&mut self, counter: Counter, value: u64) {
        if self.values[counter as usize] != value {
            self.values[counter as usize] = value;
            self.mark(counter as usize);
        }
    }

    fn mark(&mut self, index: usize) {
        self.changed[index / u64::BITS as usize] |= 1 << (index % u64::BITS as usize);
    }

    /// Passes the index and value of each counter that has changed since the last call to `publish`.
    fn publish_changes(&mut self, mut publish: impl FnMut(usize, u64)) {
        for (word, changed) in self.changed.iter_mut().enumerate() {
            let mut left = std::mem::take(changed);
            while left != 0 {
                let index = word * u64::BITS as usize + left.trailing_zeros() as usize;
                publish(index, self.values[index]);
                left &= left - 1;
            }
        }
    }

    /// Sets the counters of the path, field and body caches.
    pub fn set_caches(&mut self, counts: [CacheCounts; 3]) {
        use Counter as C;
        let keys = [
            [C::PathCacheHits, C::PathCacheMisses, C::PathCacheEvictions, C::PathCacheBytes],
            [C::HeadCacheHits, C::HeadCacheMisses, C::HeadCacheEvictions, C::HeadCacheBytes],
            [C::BodyCacheHits, C::BodyCacheMisses, C::BodyCacheEvictions, C::BodyCacheBytes],
        ];
        for ([hits, misses, evictions, bytes], counts) in keys.into_iter().zip(counts) {
            self.set(hits, counts.hits);
            self.set(misses, counts.misses);
            self.set(evictions, counts.evictions);
            self.set(bytes, counts.bytes);
        }
    }

    /// Only the counters that never decrease, which are kept when a process has ended.
    pub fn totals(mut self) -> Served {
        for counter in Counter::ALL.iter().filter(|counter| counter.kind() == Kind::Gauge) {
            self.set(*counter, 0);
        }
        self
    }

    pub fn merge(&mut self, other: &Served) {
        for counter in Counter::ALL {
            self.add(*counter, other.value(*counter));
        }
    }
}

impl Serialize for Served {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COUNT))?;
        for counter in Counter::ALL {
            match counter.kind() {
                Kind::Seconds => map.serialize_entry(counter.key(), &self.seconds(*counter))?,
                Kind::Total | Kind::Gauge | Kind::Limit => {
                    map.serialize_entry(counter.key(), &self.value(*counter))?
                }
            }
        }
        map.end()
    }
}
