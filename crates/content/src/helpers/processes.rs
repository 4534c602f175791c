//! Helper processes, as in Flash. The loop talks to each over a socket, one request at a time.
//!
//! To open a document, a helper gets the path and looks up and reads what the server will need; to load, it gets the
//! file and reads the range. It only replies that the kernel now has the data in memory, so that the server need not
//! wait when it does the same. A helper that ends unexpectedly is replaced when there is work for it, and its job is
//! repeated next.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::child::ForkServer;
use super::message::{REPLY_BYTES, REQUEST_BYTES, Reply, Request, receive, send};
use super::queue::{Queue, Queued};
use super::{HelperCounts, Refused};
use crate::job::{Done, FileRange, Job, LoadError, Opening, Urgency};
use crate::origin::{OpenError, Origin};

#[cfg(test)]
mod tests;

/// How many helpers may end during one job before it counts as failed, because the job itself may kill them. With
/// something else killing a helper every 50 ms, three were too few for jobs that waited long for a busy disk.
const LOST_HELPERS_MAX: u32 = 8;

/// The event token for outcomes that needed no helper.
const OUTCOME: u64 = u64::MAX;

pub struct Processes {
    origin: Arc<dyn Origin>,
    fork_server: ForkServer,
    queue: Queue,
    /// A slot is empty before its first job and after its helper ended.
    places: Vec<Option<Helper>>,
    /// Readable when a helper has replied or ended, or when `outcome` is.
    events: OwnedFd,
    outcome: OwnedFd,
}

struct Helper {
    socket: OwnedFd,
    at_work: Option<Queued>,
}

impl Processes {
    /// A pool of at most `count` processes. One starts immediately, to check that they can.
    pub fn start(origin: &Arc<dyn Origin>, count: usize, queue_max: usize) -> io::Result<Processes> {
        if origin.directories().is_empty() {
            let message = "helper processes need a local directory to open files in";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let fork_server = ForkServer::start(origin.directories())?;
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let outcome = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        epoll::add(&events, &outcome, epoll::EventData::new_u64(OUTCOME), epoll::EventFlags::IN)?;
        let places = (0..count.max(1)).map(|_| None).collect();
        let queue = Queue::new(queue_max);
        let mut pool = Processes { origin: Arc::clone(origin), fork_server, queue, places, events, outcome };
        pool.start_first_helper()?;
        Ok(pool)
    }

    /// See [`Helpers::submit_at`](super::Helpers::submit_at).
    pub fn submit(&mut self, token: u64, job: Job, urgency: Urgency) -> Result<(), Refused> {
        self.queue.submit(token, job, urgency)?;
        self.dispatch();
        Ok(())
    }

    /// See [`Helpers::completion_fd`](super::Helpers::completion_fd).
    pub fn completion_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// See [`Helpers::collect`](super::Helpers::collect).
    pub fn collect(&mut self, into: &mut Vec<(u64, Done)>) {
        let mut events = Vec::with_capacity(self.places.len() + 1);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.events, rustix::buffer::spare_capacity(&mut events), Some(&at_once));
        for event in events {
            match event.data.u64() {
                OUTCOME => drop(rustix::io::read(&self.outcome, &mut [0; 8])),
                place => self.receive_reply(place as usize),
            }
        }
        self.dispatch();
        self.queue.collect(into);
    }

    /// See [`Helpers::counts`](super::Helpers::counts).
    pub fn counts(&self) -> HelperCounts {
        self.queue.counts()
    }

    /// Assigns queued jobs to idle helpers.
    fn dispatch(&mut self) {
        while !self.queue.is_empty() {
            let is_idle =
                |place: &Option<Helper>| place.as_ref().is_some_and(|helper| helper.at_work.is_none());
            let idle = self.places.iter().position(is_idle);
            let Some(place) = idle.or_else(|| self.places.iter().position(Option::is_none)) else { return };
            let Some(queued) = self.queue.take() else { return };
            self.give(place, queued);
        }
    }

    fn give(&mut self, place: usize, queued: Queued) {
        let mut request = [0; REQUEST_BYTES];
        let file = match encode(&*self.origin, &queued.job, &mut request) {
            Ok(file) => file,
            Err(done) => return self.finish(&queued, &done),
        };
        if self.places[place].is_none() && self.start_helper(place).is_err() {
            return self.again(queued);
        }
        let helper = self.places[place].as_mut().expect("it was there or has just started");
        match send(helper.socket.as_fd(), &request, file) {
            Ok(()) => helper.at_work = Some(queued),
            Err(_) => {
                self.lose(place);
                self.again(queued);
            }
        }
    }

    /// Handles a reply from the helper in slot `place`, or its end.
    fn receive_reply(&mut self, place: usize) {
        let Some(helper) = &mut self.places[place] else { return };
        let mut reply = [0; REPLY_BYTES];
        match receive(helper.socket.as_fd(), &mut reply, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {}
            Ok(_) => {
                let queued = helper.at_work.take().expect("a helper speaks when it was asked");
                let done = outcome(&*self.origin, &queued.job, Reply::decode(&reply));
                self.finish(&queued, &done);
            }
            Err(_) => {
                let queued = helper.at_work.take();
                self.lose(place);
                if let Some(queued) = queued {
                    self.again(queued);
                }
            }
        }
    }

    fn start_helper(&mut self, place: usize) -> Result<(), Errno> {
        let socket = match self.fork_server.start_helper() {
            Ok(socket) => socket,
            // The fork server has ended, too.
            Err(_) => {
                self.fork_server = ForkServer::start(self.origin.directories()).map_err(|_| Errno::AGAIN)?;
                self.fork_server.start_helper()?
            }
        };
        epoll::add(&self.events, &socket, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)?;
        self.places[place] = Some(Helper { socket, at_work: None });
        Ok(())
    }

    /// Starts a helper and checks that it works; retries if something else killed it, as for other jobs.
    fn start_first_helper(&mut self) -> io::Result<()> {
        let mut lost_helpers = 0;
        loop {
            self.start_helper(0)?;
            let Err(error) = self.try_first_helper() else { return Ok(()) };
            self.lose(0);
            lost_helpers += 1;
            if lost_helpers == LOST_HELPERS_MAX {
                return Err(io::Error::new(error.kind(), format!("helper processes do not start: {error}")));
            }
        }
    }

    /// Lets the first helper perform an empty read.
    fn try_first_helper(&self) -> Result<(), Errno> {
        let socket = self.places[0].as_ref().expect("it was started").socket.as_fd();
        let mut request = [0; REQUEST_BYTES];
        let _ = Request::Read { offset: 0, length: 0 }.encode(&mut request);
        send(socket, &request, Some(self.origin.directories()[0].root()))?;
        receive(socket, &mut [0; REPLY_BYTES], RecvFlags::empty()).map(drop)
    }

    fn lose(&mut self, place: usize) {
        self.places[place] = None;
        self.queue.count_lost_helper();
    }

    /// Repeats a job whose helper ended.
    fn again(&mut self, mut queued: Queued) {
        queued.lost_helpers += 1;
        if queued.lost_helpers < LOST_HELPERS_MAX {
            return self.queue.put_back(queued);
        }
        let done = match &queued.job {
            Job::Open(_) => Done::Opened(Err(OpenError::Busy)),
            Job::Load(_) => Done::Loaded(Err(LoadError::Failed)),
        };
        self.finish(&queued, &done);
    }

    fn finish(&mut self, queued: &Queued, done: &Done) {
        self.queue.finish(queued, done);
        let _ = rustix::io::write(&self.outcome, &1u64.to_ne_bytes());
    }
}

/// The request for `job` and the file attached to it; or the outcome, if a helper cannot help.
fn encode<'a>(
    origin: &dyn Origin,
    job: &'a Job,
    request: &mut [u8; REQUEST_BYTES],
) -> Result<Option<BorrowedFd<'a>>, Done> {
    match job {
        Job::Load(FileRange { document, offset, length, .. }) => {
            let _ = Request::Read { offset: *offset, length: *length as u64 }.encode(request);
            Ok(Some(document.file().expect("only files have helper processes")))
        }
        Job::Open(Opening { resource, body_bytes_max, .. }) => {
            let host = resource.host.0;
            if !origin.directories()[usize::from(host)].shows(&resource.path) {
                return Err(Done::Opened(Err(OpenError::NotFound)));
            }
            let path = resource.path.as_bytes();
            let request_for = Request::LookUp { host, path, body_bytes_max: *body_bytes_max };
            request_for.encode(request).map(|()| None).ok_or(Done::Opened(Err(OpenError::NotFound)))
        }
    }
}

/// The outcome after a helper's reply: the loop does the same, now from memory.
fn outcome(origin: &dyn Origin, job: &Job, reply: Reply) -> Done {
    match job {
        Job::Open(_) => job.perform(origin, &mut Vec::new()),
        Job::Load(_) if reply.error.is_some() => Done::Loaded(Err(LoadError::Failed)),
        Job::Load(range) if reply.length < range.length as u64 => Done::Loaded(Err(LoadError::Truncated)),
        Job::Load(range) if range.into_memory => job.perform(origin, &mut Vec::new()),
        Job::Load(_) => Done::Loaded(Ok(None)),
    }
}
