//! Request smuggling: requests that two servers could read differently, and what may arrive of them at an upstream or an
//! application.

/// Follows each attempt on the same connection.
pub const AFTER: &str = "GET /after HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Nothing of these arrives: neither what they may contain nor what follows.
pub const REFUSED: &[&str] = &[
    // Two framings.
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 37\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /inside HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    // Invalid lengths.
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5_\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5.0\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5e0\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \"5\"\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551621\r\n\r\nhello",
    // Codings that are not exactly chunked.
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked,\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\0\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    // Lines that may end or continue elsewhere for others.
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: h\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nX: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nX: a\0\r\n\r\n",
    "GET / HTTP/1.1\nHost: h\n\n",
    "GET / HTTP/1.1\r\nHost: h\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nX: \x01\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nX(y): x\r\n\r\n",
    // Request lines.
    "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
    "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /\x0b HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
    "GET / HTTP/01.1\r\nHost: h\r\n\r\n",
    "GET / http/1.1\r\nHost: h\r\n\r\n",
    "GET /\r\n\r\n",
    // Hosts.
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET http:/// HTTP/1.1\r\nHost: h\r\n\r\n",
    // Chunks. The head has been forwarded already; the request never becomes complete.
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5_\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: a\n\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 9\r\n\r\n",
];

/// These arrive, read in this one way, and so does what follows.
pub const PASSED: &[(&str, &str, &str)] = &[
    ("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "POST /a HTTP/1.1", "hello"),
    ("GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "GET /a HTTP/1.1", "hello"),
    ("\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a HTTP/1.1", ""),
    ("GET http://a/b?c HTTP/1.1\r\nHost: h\r\n\r\n", "GET /b?c HTTP/1.1", ""),
    ("GET http://a?c HTTP/1.1\r\nHost: h\r\n\r\n", "GET /?c HTTP/1.1", ""),
    (
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 38\r\nTransfer_Encoding: chunked\r\n\r\n0\r\n\r\nGET /inside HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /a HTTP/1.1",
        "0\r\n\r\nGET /inside HTTP/1.1\r\nHost: h\r\n\r\n",
    ),
    (
        "POST /a HTTP/1.1\r\nHost: h\r\nConnection: Content-Length, Host, X-A\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello",
        "POST /a HTTP/1.1",
        "hello",
    ),
    (
        "POST /a HTTP/1.1\r\nHost: h\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=\"b;\"\r\nhello\r\n0\r\nX: y\r\n\r\n",
        "POST /a HTTP/1.1",
        "hello",
    ),
    (
        "POST /a HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 1\r\n\r\nx",
        "POST /a HTTP/1.1",
        "x",
    ),
    (
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n005\r\nhello\r\n000\r\n\r\n",
        "POST /a HTTP/1.1",
        "hello",
    ),
];
