//! An NFS server (version 3), as much of it as reading files needs, written from RFC 1813 and RFC 5531 without the codec
//! of the client under test. Both services answer on one port, so no port mapper is needed.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MOUNT: u32 = 100_005;
const NFS: u32 = 100_003;

const NOENT: u32 = 2;
const STALE: u32 = 70;
const JUKEBOX: u32 = 10_008;

/// In the header of a record's last fragment.
const IS_LAST: u32 = 1 << 31;

/// What the server does with calls of NFS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    Hangs,
    Waits(Duration),
    /// Closes the connection, once.
    Closes,
    /// Sends this many bytes of a reply and closes the connection, once.
    Cuts(usize),
    /// Closes every connection, as if it were not there.
    Absent,
    /// Asks to try again later, once.
    Delays,
    /// Empties a file after READ has read it and before its attributes are taken, once.
    Empties,
}

#[derive(Clone)]
pub struct NfsServer {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    nodes: Mutex<HashMap<u64, Node>>,
    fault: Mutex<Fault>,
    calls: AtomicUsize,
    connections: AtomicUsize,
    /// Handles of another generation are stale.
    generation: AtomicU64,
}

enum Node {
    Directory(HashMap<Vec<u8>, u64>),
    File {
        bytes: Vec<u8>,
        modified: u32,
    },
    Link(Vec<u8>),
    /// Neither: a FIFO.
    Other,
}

const ROOT: u64 = 1;

/// Longer replies are sent in fragments of this size.
const FRAGMENT_BYTES: usize = 32 << 10;

impl NfsServer {
    /// A server of an empty directory.
    pub fn start() -> NfsServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        state.nodes.lock().unwrap().insert(ROOT, Node::Directory(HashMap::new()));
        let own = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                own.connections.fetch_add(1, Ordering::SeqCst);
                let own = Arc::clone(&own);
                std::thread::spawn(move || while own.serve(&stream).is_some() {});
            }
        });
        NfsServer { address, state }
    }

    /// Puts a file at `path`, whose directories are made, in place of what was there.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>, modified: u32) {
        self.add(path, Node::File { bytes: bytes.into(), modified });
    }

    pub fn put_link(&self, path: &str, target: &str) {
        self.add(path, Node::Link(target.into()));
    }

    pub fn put_fifo(&self, path: &str) {
        self.add(path, Node::Other);
    }

    /// Changes a file in place.
    pub fn overwrite(&self, path: &str, bytes: impl Into<Vec<u8>>, modified: u32) {
        let mut nodes = self.state.nodes.lock().unwrap();
        let id = find(&nodes, path).expect("it is there");
        nodes.insert(id, Node::File { bytes: bytes.into(), modified });
    }

    fn add(&self, path: &str, node: Node) {
        let mut nodes = self.state.nodes.lock().unwrap();
        let (mut at, names) = (ROOT, path.split('/').collect::<Vec<_>>());
        for (depth, name) in names.iter().enumerate() {
            let next = nodes.keys().max().unwrap() + 1;
            let Some(Node::Directory(entries)) = nodes.get_mut(&at) else {
                panic!("{path}: not a directory")
            };
            if depth + 1 == names.len() {
                let before = entries.insert(name.as_bytes().to_vec(), next);
                nodes.insert(next, node);
                before.map(|id| nodes.remove(&id));
                return;
            }
            let is_new = !entries.contains_key(name.as_bytes());
            at = *entries.entry(name.as_bytes().to_vec()).or_insert(next);
            if is_new {
                nodes.insert(at, Node::Directory(HashMap::new()));
            }
        }
    }

    pub fn set_fault(&self, fault: Fault) {
        *self.state.fault.lock().unwrap() = fault;
    }

    /// Makes all handles stale, like a server that is started anew and does not keep them.
    pub fn forget_handles(&self) {
        self.state.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Calls of NFS so far.
    pub fn calls(&self) -> usize {
        self.state.calls.load(Ordering::SeqCst)
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

fn find(nodes: &HashMap<u64, Node>, path: &str) -> Option<u64> {
    path.split('/').try_fold(ROOT, |at, name| match nodes.get(&at)? {
        Node::Directory(entries) => entries.get(name.as_bytes()).copied(),
        _ => None,
    })
}

impl State {
    fn serve(&self, mut stream: &TcpStream) -> Option<()> {
        let mut header = [0; 4];
        stream.read_exact(&mut header).ok()?;
        let mut call = vec![0; (u32::from_be_bytes(header) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut call).ok()?;
        let mut call = Call(&call);
        let xid = call.number();
        let [_call, _version, program, _, procedure] = [(); 5].map(|()| call.number());
        for _ in ["credential", "verifier"] {
            call.number();
            call.bytes();
        }
        // A reply that is accepted, with an empty verifier, and successful.
        let mut reply: Vec<u8> = [xid, 1, 0, 0, 0, 0].into_iter().flat_map(u32::to_be_bytes).collect();
        let fault = *self.fault.lock().unwrap();
        if fault == Fault::Absent {
            return None;
        }
        if program == MOUNT {
            number(&mut reply, 0);
            bytes(&mut reply, &self.handle(ROOT));
            [1, 1].into_iter().for_each(|word| number(&mut reply, word));
            return send(stream, &reply);
        }
        assert_eq!(program, NFS);
        self.calls.fetch_add(1, Ordering::SeqCst);
        match fault {
            Fault::Hangs => {
                let _ = stream.read(&mut [0]);
                return None;
            }
            Fault::Waits(time) => std::thread::sleep(time),
            Fault::Closes => {
                self.is_over(fault);
                return None;
            }
            Fault::Delays => {
                self.is_over(fault);
                number(&mut reply, JUKEBOX);
                // No attributes; of GETATTR there would be none.
                number(&mut reply, 0);
                return send(stream, &reply);
            }
            _ => {}
        }
        self.answer(procedure, &mut call, &mut reply);
        if let Fault::Cuts(count) = fault {
            self.is_over(fault);
            let header = (IS_LAST | reply.len() as u32).to_be_bytes();
            let _ = stream.write_all(&[&header[..], &reply[..count.min(reply.len())]].concat());
            return None;
        }
        send(stream, &reply)
    }

    /// Ends a fault that happens once.
    fn is_over(&self, fault: Fault) {
        let mut current = self.fault.lock().unwrap();
        if *current == fault {
            *current = Fault::None;
        }
    }

    fn handle(&self, id: u64) -> [u8; 16] {
        let mut handle = [0; 16];
        handle[..8].copy_from_slice(&self.generation.load(Ordering::SeqCst).to_be_bytes());
        handle[8..].copy_from_slice(&id.to_be_bytes());
        handle
    }

    fn answer(&self, procedure: u32, call: &mut Call<'_>, reply: &mut Vec<u8>) {
        const GETATTR: u32 = 1;
        const LOOKUP: u32 = 3;
        const READLINK: u32 = 5;
        const READ: u32 = 6;
        let mut nodes = self.nodes.lock().unwrap();
        let handle = call.bytes();
        let id = u64::from_be_bytes(handle[8..].try_into().expect("our handle"));
        let Some(node) = nodes.get(&id).filter(|_| self.handle(id) == handle) else {
            number(reply, STALE);
            if procedure != GETATTR {
                number(reply, 0);
            }
            return;
        };
        match (procedure, node) {
            (GETATTR, node) => {
                number(reply, 0);
                attributes(reply, id, node);
            }
            (LOOKUP, Node::Directory(entries)) => match entries.get(call.bytes()) {
                Some(found) => {
                    number(reply, 0);
                    bytes(reply, &self.handle(*found));
                    number(reply, 1);
                    attributes(reply, *found, &nodes[found]);
                    number(reply, 0);
                }
                None => [NOENT, 0].into_iter().for_each(|word| number(reply, word)),
            },
            (READLINK, Node::Link(target)) => {
                [0, 0].into_iter().for_each(|word| number(reply, word));
                bytes(reply, target);
            }
            (READ, Node::File { bytes: content, modified }) => {
                let offset = (u64::from(call.number()) << 32 | u64::from(call.number())) as usize;
                let end = content.len().min(offset + call.number() as usize);
                let part = content.get(offset..end).unwrap_or_default().to_vec();
                let is_end = end == content.len();
                if *self.fault.lock().unwrap() == Fault::Empties {
                    let emptied = Node::File { bytes: Vec::new(), modified: modified + 1 };
                    nodes.insert(id, emptied);
                    self.is_over(Fault::Empties);
                }
                [0, 1].into_iter().for_each(|word| number(reply, word));
                attributes(reply, id, &nodes[&id]);
                number(reply, part.len() as u32);
                number(reply, u32::from(is_end));
                bytes(reply, &part);
            }
            (LOOKUP, _) => [20, 0].into_iter().for_each(|word| number(reply, word)),
            _ => [22, 0].into_iter().for_each(|word| number(reply, word)),
        }
    }
}

/// Sends a record, in several fragments if it is long.
fn send(mut stream: &TcpStream, record: &[u8]) -> Option<()> {
    let last = record.len().div_ceil(FRAGMENT_BYTES) - 1;
    for (number, fragment) in record.chunks(FRAGMENT_BYTES).enumerate() {
        let is_last = if number == last { IS_LAST } else { 0 };
        let header = (is_last | fragment.len() as u32).to_be_bytes();
        stream.write_all(&[&header[..], fragment].concat()).ok()?;
    }
    Some(())
}

fn attributes(reply: &mut Vec<u8>, id: u64, node: &Node) {
    let (kind, size, modified) = match node {
        Node::Directory(_) => (2, 0, 0),
        Node::File { bytes, modified } => (1, bytes.len() as u64, *modified),
        Node::Link(target) => (5, target.len() as u64, 0),
        Node::Other => (7, 0, 0),
    };
    [kind, 0o644, 1, 0, 0].into_iter().for_each(|word| number(reply, word));
    // Size, used, device, file system, number.
    [size, size, 0, 1, id].into_iter().for_each(|word| reply.extend(word.to_be_bytes()));
    [0, 0, modified, 0, modified, 0].into_iter().for_each(|word| number(reply, word));
}

fn number(reply: &mut Vec<u8>, word: u32) {
    reply.extend(word.to_be_bytes());
}

fn bytes(reply: &mut Vec<u8>, bytes: &[u8]) {
    number(reply, bytes.len() as u32);
    reply.extend(bytes);
    reply.resize(reply.len().next_multiple_of(4), 0);
}

struct Call<'a>(&'a [u8]);

impl<'a> Call<'a> {
    fn number(&mut self) -> u32 {
        let (word, rest) = self.0.split_first_chunk().expect("a word");
        self.0 = rest;
        u32::from_be_bytes(*word)
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = self.number() as usize;
        let bytes = &self.0[..length];
        self.0 = &self.0[length.next_multiple_of(4)..];
        bytes
    }
}
