//! The virtual users of a scenario, idle and new ones, and how they handle responses.

use std::{collections::VecDeque, sync::Arc, time::SystemTime};

use sojourn_measure::Nanos;

use crate::{
    clients::{Ended, Run, client::Client},
    http::response_reader::Response,
    plan::scenario::{
        Scenario,
        answer::Answer,
        user::KeptUser,
        user::{Next, User},
    },
    statistics::step::PendingRequest,
};

pub(crate) struct Users {
    pub(crate) scenario: Arc<Scenario>,
    /// Users without an iteration in progress; the longest idle one is first.
    free: VecDeque<Box<User>>,
    pub(crate) count: u64,
    /// How many were opened so far: users who do something beside something else.
    tabs: u64,
    seed: u64,
}

impl Users {
    pub(crate) fn new(scenario: Arc<Scenario>, seed: u64) -> Users {
        let earlier = scenario.kept().iter().map(|kept| Box::new(User::again(&scenario, kept, seed)));
        let free: VecDeque<Box<User>> = earlier.collect();
        let count = scenario.kept().iter().map(|kept| kept.number() + 1).max().unwrap_or(0);
        Users { scenario, free, count, tabs: 0, seed }
    }

    pub(crate) fn take(&mut self) -> Box<User> {
        let free = if self.count < self.scenario.users_count() { None } else { self.free.pop_front() };
        let mut user = free.unwrap_or_else(|| Box::new(self.new_user()));
        user.begin_iteration();
        user
    }

    /// A new user, for when all others are busy.
    fn new_user(&mut self) -> User {
        if self.scenario.has_tabs() && self.count >= self.scenario.users_count() {
            let kept = self.scenario.kept();
            self.tabs += 1;
            let of = &kept[(self.tabs % kept.len() as u64) as usize];
            let mut tab = User::again(&self.scenario, of, self.seed.wrapping_add(self.tabs));
            tab.is_tab = true;
            return tab;
        }
        self.count += 1;
        User::new(&self.scenario, self.count - 1, self.seed)
    }

    /// What to keep of logged-in users, including those with an iteration in progress.
    pub(crate) fn kept<'a>(&'a self, under_way: impl Iterator<Item = &'a User>) -> Vec<KeptUser> {
        let all = self.free.iter().map(Box::as_ref).chain(under_way);
        let mut kept: Vec<KeptUser> = all
            .filter(|user| user.is_logged_in && !user.is_tab)
            .map(|user| user.kept(&self.scenario))
            .collect();
        kept.sort_by_key(KeptUser::number);
        kept
    }

    /// Records that a user's iteration has ended.
    pub(crate) fn release(&mut self, user: Box<User>) {
        if !self.scenario.is_user_new() {
            self.free.push_back(user);
        }
    }
}

impl Run<'_> {
    /// Assigns a user to a client that starts a visit, if the run has users; one that is not logged in logs in first.
    pub(super) fn assign_user(&mut self, key: usize) {
        let Some(users) = &mut self.users else { return };
        let user = users.take();
        let client = &mut self.table.clients[key];
        if !user.is_logged_in {
            client.visit_state.log_in_first();
        }
        client.user = Some(user);
    }

    /// Takes the user back from a client.
    pub(super) fn take_user_back(&mut self, key: usize) {
        if let (Some(users), Some(user)) = (&mut self.users, self.table.clients[key].user.take()) {
            users.release(user);
        }
    }

    /// Prepares the bytes of a client's pending request, if it has a user. Returns false if the request cannot be sent;
    /// the client has then continued.
    pub(super) fn prepare(&mut self, key: usize, at: Nanos) -> bool {
        let client = &mut self.table.clients[key];
        let (Some(users), Some(user), Some(pending)) = (&self.users, &mut client.user, client.pending) else {
            return true;
        };
        let Err(cause) = user.prepare(&users.scenario, pending.document, SystemTime::now()) else {
            return true;
        };
        self.recorder.fail(&pending, cause, at);
        self.advance(key, at, Ended::Failed);
        false
    }

    /// Passes a response to the user of a connection's client; `None` without a user. If the user follows a redirect,
    /// its next bytes are ready.
    pub(super) fn judged_by_user(&mut self, key: usize, response: &Response) -> Option<Next> {
        self.users.as_ref()?;
        let connection = &mut self.table.connections[key];
        let (owner, pending) = (connection.owner?, connection.exchange.pending);
        let (head, body) = (connection.http.response.take_kept_head(), connection.http.response.take_kept());
        self.judged(owner, &pending, response, &head, &body)
    }

    /// Has a client's user look at an answer.
    pub(super) fn judged(
        &mut self,
        owner: usize,
        pending: &PendingRequest,
        response: &Response,
        head: &[u8],
        body: &[u8],
    ) -> Option<Next> {
        let users = self.users.as_ref()?;
        let Client { user, visit_state, .. } = &mut self.table.clients[owner];
        let user = user.as_mut()?;
        let request = pending.document;
        let answer = Answer { status: response.status, head, body };
        self.recorder.add_server_timing(pending, answer.fields("server-timing"));
        let next = user.answered(&users.scenario, request, &answer, SystemTime::now());
        if let Next::Over(Some(cause)) = next {
            self.recorder
                .record_failure(pending, || user.explanation(&users.scenario, request, &answer, cause));
        }
        let is_good = next == Next::Over(None);
        if is_good && !user.is_logged_in {
            user.is_logged_in = visit_state.has_logged_in(&users.scenario);
        }
        Some(next)
    }

    /// Sends the bytes that follow a redirect, over another connection if necessary.
    pub(super) fn follow(&mut self, owner: usize, pending: PendingRequest, at: Nanos) {
        self.recorder.redirected(&pending);
        self.table.clients[owner].pending = Some(pending);
        match self.table.clients[owner].connection {
            Some(connection) => self.send(connection, at),
            None => self.open(owner),
        }
    }

    /// Returns true if the failure of a client's request ends its visit.
    pub(super) fn failure_ends_visit(&self, key: usize) -> bool {
        let of_request = || {
            let users = self.users.as_ref()?;
            let request = self.table.clients[key].visit_state.current_request()?;
            Some(users.scenario.failure_ends_iteration(request))
        };
        of_request().unwrap_or_else(|| self.workload.failure_ends_visit())
    }
}
