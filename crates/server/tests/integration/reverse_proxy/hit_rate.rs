//! Compares the hit ratio of the real proxy, with its disk, to the simulator's on Zipf-distributed requests.

use super::{Options, proxy};
use crate::server::Server;
use sojourn_cache_store::ADMISSIONS;
use sojourn_cache_store::replacement;
use sojourn_cache_store::simulation::{Cache, Request, simulate};
use sojourn_server::Counter;
use sojourn_testing::upstream::Upstream;

const DOCUMENTS: usize = 600;
const REQUESTS: usize = 5_000;
const SEED: u64 = 7;
/// The exponent of Zipf's law, typical for proxy logs.
const EXPONENT: f64 = 0.8;

/// The size of a document: 10,000 to 70,000 bytes, independent of its rank.
fn size(document: u32) -> u64 {
    10_000 + mixed(u64::from(document)) % 60_000
}

fn mixed(number: u64) -> u64 {
    let mut state = number.wrapping_add(SEED).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

fn requests() -> Vec<Request> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=DOCUMENTS)
        .map(|rank| {
            sum += (rank as f64).powf(-EXPONENT);
            sum
        })
        .collect();
    let draw = |number: usize| {
        let at = mixed(1_000_000 + number as u64) as f64 / u64::MAX as f64 * sum;
        let object = sums.partition_point(|sum| *sum < at).min(DOCUMENTS - 1) as u32;
        Request { object, size_bytes: size(object) }
    };
    (0..REQUESTS).map(draw).collect()
}

fn origin() -> Upstream {
    Upstream::start(|peer| {
        while let Some(head) = peer.head() {
            let number = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            let length = size(number) as usize;
            let fields = format!("Content-Length: {length}\r\nCache-Control: max-age=3600");
            peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes());
            peer.send(&vec![b'x'; length]);
        }
    })
}

/// Requests all of them, one after the other.
fn replay(server: &Server, requests: &[Request]) {
    let mut client = server.connect();
    for request in requests {
        client.send(format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", request.object).as_bytes());
        client.until(b"\r\n\r\n");
        client.take(request.size_bytes as usize);
    }
}

fn hit_rate(misses: u64) -> f64 {
    1.0 - misses as f64 / REQUESTS as f64
}

/// The data set is four times the memory; the disk holds half of it.
fn check(policy: &str) {
    let requests = requests();
    let data_bytes: u64 = (0..DOCUMENTS as u32).map(size).sum();
    let (memory_bytes, disk_bytes) = (data_bytes / 4, data_bytes / 2);
    let simulated = |budget_bytes: u64| {
        let cache = Cache { budget_bytes, object_bytes_max: u64::MAX, admission: ADMISSIONS[0] };
        hit_rate(simulate(&requests, replacement::by_name(policy).unwrap(), &cache).requests)
    };
    let (upstream, directory) = (origin(), tempfile::tempdir().unwrap());
    let set = |options: &mut Options| {
        options.memory.memory_bytes = memory_bytes as usize;
        options.memory.policy = replacement::by_name(policy).unwrap();
        options.keep_in(directory.path());
        let disk = options.disk.as_mut().unwrap();
        (disk.bytes, disk.policy) = (disk_bytes, options.memory.policy);
    };
    let server = proxy("amped", &[upstream.address], &[&set]);
    replay(&server, &requests);
    let counted = server.stop();
    let (hits, from_disk) = (counted.value(Counter::CacheHits), counted.value(Counter::CacheDiskHits));
    let rates = [hits as f64 / REQUESTS as f64, (hits - from_disk) as f64 / REQUESTS as f64];
    let expected = [simulated(disk_bytes), simulated(memory_bytes)];
    eprintln!(
        "{policy}: hits {:.3} of {:.3} simulated, in memory {:.3} of {:.3}",
        rates[0], expected[0], rates[1], expected[1]
    );
    assert!(
        rates[0] >= 0.9 * expected[0] && rates[1] >= 0.85 * expected[1],
        "{policy}: {rates:?}, {expected:?}"
    );
    assert!(counted.value(Counter::CacheDiskBytes) <= disk_bytes);
}

#[test]
fn s3_fifo_is_as_good_as_simulated() {
    check("s3-fifo");
}

#[test]
fn lru_is_as_good_as_simulated() {
    check("lru");
}

#[test]
#[ignore = "it takes half a minute"]
fn every_policy_is_as_good_as_simulated() {
    for policy in replacement::ALL {
        check(policy.name);
    }
}
