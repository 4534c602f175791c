//! The cache before applications that speak FastCGI.

use std::sync::Arc;

use sojourn_cgi::Application;
use sojourn_server::handler::reverse_proxy::Protocol;
use sojourn_testing::client::{get, status};
use sojourn_testing::upstream::{Peer, Upstream};

use super::{Configured, configured, proxy_of};

/// The record that ends a request without a body.
const INPUT_END: [u8; 8] = [1, 5, 0, 1, 0, 0, 0, 0];

const END_REQUEST: u8 = 3;
const STDOUT: u8 = 6;

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[1, kind, 0, 1, 0, content.len() as u8, 0, 0], content].concat()
}

/// FastCGI 1.0, 5.5: a record ends the response, so that it is known to be whole without a Content-Length.
#[test]
fn what_an_application_sends_without_a_length_is_stored_if_it_is_whole() {
    let output = record(STDOUT, b"Cache-Control: max-age=60\n\nhello");
    let whole = [output.clone(), record(STDOUT, b""), record(END_REQUEST, &[0; 8])].concat();
    for (records, asked) in [(whole, 1), (output, 2)] {
        let upstream = Upstream::start(move |peer: &mut Peer| {
            peer.until(&INPUT_END);
            peer.send(&records);
        });
        let application = Application {
            root: b"/srv/www".to_vec(),
            index: b"index.php".to_vec(),
            suffix: b".php".to_vec(),
            script: None,
            variables: Vec::new(),
        };
        let protocol = Protocol::FastCgi(Arc::new(application));
        let upstreams = vec![Configured { protocol, ..configured(upstream.address) }];
        let server = proxy_of("amped", upstreams, &[]);
        for _ in 0..2 {
            let answer = get(&server, "/a.php");
            assert!(status(&answer) == "200" && answer.contains("hello"), "{answer}");
        }
        assert_eq!(upstream.connections(), asked);
    }
}
