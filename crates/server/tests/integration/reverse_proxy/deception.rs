//! Web cache deception and poisoning: a client is lured to a path that the origin reads as that of a private page and a
//! cache might take for a stylesheet, or two spellings share a key although the origin tells them apart.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sojourn_testing::client::{Client, status};
use sojourn_testing::upstream::{Peer, Upstream};

use super::{over_sharing, proxy};
use crate::server::Server;

/// How long an upstream delays a response while other clients ask for it.
const THOUGHT: Duration = Duration::from_millis(300);

/// Paths that servers read differently; the private page is `/account`, what is public is in `/static`.
const TARGETS: &[&str] = &[
    "/account",
    "/account/",
    "/account.css",
    "/account/x.css",
    "/account/x.css?y",
    "/account%2fx.css",
    "/account%2Fx.css",
    "/account%252fx.css",
    "/account;x.css",
    "/account;.css",
    "/account;/x.css",
    "/account%3bx.css",
    "/account%00x.css",
    "/account%00.css",
    "/account%23x.css",
    "/account%3fx.css",
    "/account%0ax.css",
    "/account%0d%0aX:%20y.css",
    "/account%20",
    "/account.",
    "/account...",
    "/account%2e",
    "/account\\x.css",
    "/account%5cx.css",
    "/ACCOUNT/x.css",
    "//account/x.css",
    "/./account/x.css",
    "/static/../account",
    "/static/..%2faccount",
    "/static/%2e%2e/account",
    "/static/%2e%2e%2faccount",
    "/static/..;/account",
    "/static/..%5caccount",
    "/static/%252e%252e/account",
    "/account/../static/x.css",
    "/account/..%2fstatic/x.css",
    "/account/%2e%2e/static/x.css",
    "/account%2f..%2fstatic%2fx.css",
    "/account%2f%2e%2e%2fstatic%2fx.css",
    "/account/;/../static/x.css",
    "/static/x.css",
    "/static/x.css;y",
    "/static/x.css%00",
    "/static/x.css%23y",
    "/static/X.CSS",
    "/static//x.css",
    "/static/x.css/",
    "/static/x.css.",
    "/static/x%2ecss",
    "/static/x.css?user=1",
    "/static/x.css?",
];

fn decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = std::str::from_utf8(after.get(..2).unwrap_or_default())
            .ok()
            .filter(|digits| *first == b'%' && digits.len() == 2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = &after[if escaped.is_some() { 2 } else { 0 }..];
    }
    String::from_utf8(bytes).unwrap()
}

fn before(path: &str, end: &[char]) -> String {
    path.split(end).next().unwrap().to_owned()
}

fn resolved(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// The target with capital digits in escapes, as a proxy before a known origin passes it on.
fn capitals(target: &str) -> String {
    let mut parts = target.split('%');
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        text.extend(["%", &digits.to_uppercase(), rest]);
    }
    text
}

/// How an origin reads a target.
type Reading = fn(&str) -> String;

const READINGS: &[(&str, Reading)] = &[
    ("as it is", str::to_owned),
    ("decoded", |target| decoded(&before(target, &['?']))),
    ("decoded twice", |target| decoded(&decoded(&before(target, &['?'])))),
    ("decoded and resolved", |target| resolved(&decoded(&before(target, &['?'])))),
    ("resolved and decoded", |target| decoded(&resolved(&before(target, &['?'])))),
    ("up to the semicolon", |target| resolved(&before(target, &['?', ';']))),
    ("up to a decoded end", |target| before(&decoded(target), &['?', ';', '\0', '#', '\r', '\n'])),
    ("with backslashes", |target| resolved(&decoded(&before(target, &['?'])).replace('\\', "/"))),
    ("without case and dots at the end", |target| {
        before(target, &['?']).to_lowercase().trim_end_matches(['.', '/', ' ']).to_owned()
    }),
];

/// What an origin says of a private page.
const PRIVATE: &[&str] = &[
    "Cache-Control: no-store",
    "Cache-Control: private, max-age=60",
    "Cache-Control: max-age=60\r\nSet-Cookie: user=x",
    "Cache-Control: max-age=60\r\nVary: Cookie",
    "Cache-Control: no-cache\r\nETag: \"x\"",
    "Cache-Control: s-maxage=0\r\nETag: \"x\"",
    "X-Nothing: of caches",
];

/// The page and the fields of its response, for a client with this name.
fn page(read: &str, user: &str, private: &'static str) -> (String, &'static str) {
    // With whatever is behind it.
    if read.starts_with("/account") {
        return (format!("secret of {user}"), private);
    }
    (format!("public {}", read.escape_debug()), "Cache-Control: public, max-age=60")
}

fn response((body, fields): (String, &str)) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n\r\n{body}", body.len())
}

/// The name of the client that sent this head.
fn user(head: &str) -> &str {
    let cookie = head.split_once("\r\nCookie: user=").map(|(_, after)| after);
    cookie.map_or("nobody", |after| after.split("\r\n").next().unwrap())
}

struct Origin {
    upstream: Upstream,
    /// How targets are read, and what is said of private pages.
    rule: Arc<Mutex<(Reading, &'static str)>>,
}

impl Origin {
    fn new() -> Origin {
        let rule = Arc::new(Mutex::new((READINGS[0].1, PRIVATE[0])));
        let theirs = Arc::clone(&rule);
        let upstream = Upstream::start(move |peer: &mut Peer| {
            while let Some(head) = peer.head() {
                let (read, private) = *theirs.lock().unwrap();
                let target = head.split(' ').nth(1).unwrap();
                peer.send(response(page(&read(target), user(&head), private)).as_bytes());
            }
        });
        Origin { upstream, rule }
    }
}

/// Requests on one connection.
fn ask(server: &Server, host: &str, user: &str, targets: &[&str]) -> Vec<String> {
    let mut client = Client::to(server.address);
    let answer = |target: &&str| {
        let fields = format!("Host: {host}\r\nCookie: user={user}");
        client.send(format!("GET {target} HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes());
        let head = String::from_utf8(client.until(b"\r\n\r\n")).unwrap();
        let length = head.split_once("\r\nContent-Length: ").unwrap().1.split("\r\n").next().unwrap();
        let body = client.take(length.parse().unwrap());
        if head.contains("\r\nConnection: close\r\n") {
            client = Client::to(server.address);
        }
        if status(&head) == "200" { String::from_utf8(body).unwrap() } else { format!("refused: {head}") }
    };
    targets.iter().map(answer).collect()
}

/// Whatever a client gets is what the origin would have answered to that client for that target.
#[test]
fn nobody_gets_what_is_meant_for_another_client_or_another_path() {
    let origin = Origin::new();
    let server = proxy("amped", &[origin.upstream.address], &[]);
    for (number, (name, read)) in READINGS.iter().enumerate() {
        for (variant, private) in PRIVATE.iter().enumerate() {
            *origin.rule.lock().unwrap() = (*read, private);
            // Nothing that was stored under another rule.
            let host = format!("h{number}-{variant}");
            for user in ["victim", "attacker"] {
                let answers = ask(&server, &host, user, TARGETS);
                for (target, answer) in TARGETS.iter().zip(answers) {
                    let (expected, _) = page(&read(&capitals(target)), user, private);
                    let refused = answer.starts_with("refused: HTTP/1.1 4");
                    assert!(
                        answer == expected || refused,
                        "{name}, {private}: {user} asks for {target}: {answer}"
                    );
                }
            }
        }
    }
    let counters = server.stop();
    let hits = counters.value(sojourn_server::Counter::CacheHits);
    assert!(hits as usize > READINGS.len() * PRIVATE.len(), "{hits} hits: nothing was stored");
}

/// The same for clients that ask at the same time: their requests are coalesced, but not what only one of them may get.
#[test]
fn nobody_gets_what_is_meant_for_another_client_that_waits_too() {
    let serve = || {
        Upstream::start(|peer: &mut Peer| {
            while let Some(head) = peer.head() {
                std::thread::sleep(THOUGHT);
                let target = head.split(' ').nth(1).unwrap();
                let private = PRIVATE[target.trim_start_matches("/account/").parse::<usize>().unwrap()];
                peer.send(response(page(target, user(&head), private)).as_bytes());
            }
        })
    };
    over_sharing(&[], serve, |server, _| {
        std::thread::scope(|scope| {
            for (number, private) in PRIVATE.iter().enumerate() {
                for user in ["victim", "attacker", "bystander"] {
                    scope.spawn(move || {
                        let answers = ask(server, "h", user, &[&format!("/account/{number}")]);
                        assert_eq!(answers, [format!("secret of {user}")], "{private}");
                    });
                }
            }
        });
    });
}

/// What varies by credentials is not stored, however it looks.
#[test]
fn authenticated_answers_are_for_who_is_authenticated() {
    let upstream = Upstream::start(|peer: &mut Peer| {
        while let Some(head) = peer.head() {
            let user =
                head.split_once("\r\nAuthorization: Basic ").map_or("nobody", |(_, after)| &after[..1]);
            peer.send(
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nCache-Control: max-age=60\r\n\r\n{}",
                    &user[..1]
                )
                .as_bytes(),
            );
        }
    });
    let server = proxy("amped", &[upstream.address], &[]);
    let get = |target: &str, credentials: &str| {
        let mut client = Client::to(server.address);
        let fields = format!("Host: h\r\nConnection: close\r\n{credentials}");
        client.send(format!("GET {target} HTTP/1.1\r\n{fields}\r\n").as_bytes());
        String::from_utf8(client.rest()).unwrap()
    };
    for target in ["/account/x.css", "/x.js", "/"] {
        assert!(get(target, "Authorization: Basic aaaa\r\n").ends_with("\r\n\r\na"));
        assert!(get(target, "Authorization: Basic bbbb\r\n").ends_with("\r\n\r\nb"));
        assert!(get(target, "").ends_with("\r\n\r\nn"));
    }
}
