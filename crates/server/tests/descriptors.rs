//! Out of descriptors: clients are told, nothing spins, service goes on. Alone in its process, because the
//! limit is the process's.

mod support;

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use sojourn_content::Directory;
use sojourn_server::{ALL, Counter, Site};
use support::{Client, Server, fixture};

/// More clients than there are descriptors for.
const CLIENTS: usize = 60;

/// Descriptors left to the server for connections and documents.
const SPARE: usize = 12;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn set_limit(descriptors: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(descriptors), maximum }).unwrap();
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn running_out_of_descriptors() {
    let root = fixture::site();
    for architecture in ALL {
        let site = Site::new(Arc::new(Directory::new(root.path(), false).unwrap()));
        let listener = support::listener();
        // They are this process's descriptors too, so they come first.
        let address = listener.local_addr().unwrap();
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::to(address)).collect();
        set_limit((open_descriptors() + SPARE) as u64);
        let server = Server::on(listener, *architecture, site);
        let mut shed = 0;
        let patience = std::time::Instant::now();
        while shed == 0 {
            assert!(patience.elapsed() < support::PATIENCE, "nobody was shed");
            std::thread::sleep(Duration::from_millis(50));
            shed = server.site.counters().value(Counter::ConnectionsShed);
        }
        let before = cpu_time();
        std::thread::sleep(Duration::from_millis(500));
        let spent = cpu_time() - before;
        assert!(
            spent < Duration::from_millis(150),
            "{}: {spent:?} of CPU time while idle",
            architecture.name()
        );

        clients[0].send(b"GET /hello.txt HTTP/1.0\r\n\r\n");
        // Connections have taken the descriptors that documents need; the engine's limits leave some for both.
        assert!(clients[0].rest().starts_with(b"HTTP/1.1 503 "));
        let told = clients.last_mut().unwrap().rest();
        assert!(told.starts_with(b"HTTP/1.1 503 "), "{:?}", String::from_utf8_lossy(&told));
        drop(clients);
        assert!(server.get("/hello.txt").ends_with("hello"));
        set_limit(getrlimit(Resource::Nofile).maximum.unwrap());
    }
}
